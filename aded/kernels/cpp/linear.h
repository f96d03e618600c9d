// Products of a few rows with bfloat16 weights, summed in float32: y = x @ weight.T + bias.
//
// Reading the weights takes most of a decoding step, so each is read once for all rows, in the order in which it lies
// in memory. `pack` lays the weights out once, in blocks of 16 outputs; of each block, pair after pair of inputs:
//
//     packed [N / 16] [K / 2] [16 outputs] [2 inputs]        N, K rounded up to 16 and 32, filled with zeros
//
// A line of a block, 64 bytes, is a vector of 16 outputs, and 16 lines are a tile of a matrix unit: all kernels read
// the same packed weights. Each sum is added up in the order of the inputs for any number of rows, so a row's product
// is the same to the last bit alone and beside others. Kernels differ in their rounding; see KERNELS.

#pragma once

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>

#include "pool.h"
#include "tiles.h"
#include "vectors.h"

namespace aded {

constexpr int BLOCK = 16, DEEP = 32;  // outputs of a block; K is rounded up to a multiple of DEEP
constexpr int STRIP = 4 * BLOCK;      // most outputs that are computed at a time
constexpr int64_t CHUNKS = 16;        // of one product; threads take them
constexpr int64_t AHEAD = 64;         // inputs, 2 KB of a block: weights are fetched so long before they are multiplied
constexpr int64_t NEAR_ROWS = 96;     // rows of x that stay in the second-level cache
constexpr int64_t MOST_BEHIND = 31;   // rows behind the last of x that a kernel may read
inline int64_t up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Calls visit(one of the bits [N, K] of weights, its place among the packed ones) for all.
template <class Visit>
void packed_places(int64_t outputs, int64_t width, const Visit& visit) {
  const int64_t deep = up(width, DEEP);
  pool().run(up(outputs, BLOCK) / BLOCK, [&](uint32_t block) {
    for (int64_t k = 0; k < width; k++)
      for (int64_t j = block * BLOCK; j < std::min<int64_t>((block + 1) * BLOCK, outputs); j++)
        visit(j * width + k, (block * deep + k / 2 * 2) * BLOCK + j % BLOCK * 2 + k % 2);
  });
}

// One call's arguments. x: rows of `deep` numbers, zeros behind the given ones: float32 or bits of bfloat16, as the
// kernel multiplies them.
struct Product {
  const void* x;
  int64_t rows, deep;
  const uint16_t* packed;
  int64_t outputs;
};

// How many blocks a kernel computes at a time for some rows, so that their sums and the weights stay in registers.
template <int LANES>
constexpr int blocks_for(int rows) {
  const auto fits = [&](int blocks) { return blocks * (BLOCK / LANES) * (rows + 1) + 2 <= REGISTERS; };
  return fits(4) ? 4 : fits(2) ? 2 : 1;
}

// Kernels. Each computes the sums of `rows` rows, at most ROWS, from `row` on with `blocks` blocks from `block` on, at
// most blocks_at_a_time(rows), to out [rows] [STRIP]. READS_BEHIND: also rows behind the last, up to MOST_BEHIND.

// Calls Kernel::sums<rows, blocks>, so that the compiler knows both numbers and keeps the sums in registers.
template <class Kernel, int rows = 1>
void sums_of(const Product& p, int64_t row, int count, int64_t block, int blocks, float* out) {
  if constexpr (rows < Kernel::ROWS)
    if (count > rows) return sums_of<Kernel, rows + 1>(p, row, count, block, blocks, out);
  if constexpr (Kernel::blocks_at_a_time(rows) == 4)
    if (blocks == 4) return Kernel::template sums<rows, 4>(p, row, block, out);
  if (blocks == 2) return Kernel::template sums<rows, 2>(p, row, block, out);
  Kernel::template sums<rows, 1>(p, row, block, out);
}

// Vectors of float32: weights are widened, a number of x is repeated.
template <int LANES>
struct Widening {
  using Number = float;
  static constexpr bool READS_BEHIND = false;
  static constexpr int ROWS = REGISTERS < 32 ? 6 : 14;
  static constexpr int blocks_at_a_time(int rows) { return blocks_for<LANES>(rows); }

  template <int rows, int blocks>
  static void sums(const Product& p, int64_t row, int64_t block, float* out) {
    using V = Vectors<LANES>;
    constexpr int PER_BLOCK = BLOCK / LANES, PARTS = PER_BLOCK * blocks;
    const float* x = static_cast<const float*>(p.x) + row * p.deep;
    const uint16_t* weight = p.packed + block * BLOCK * p.deep;
    typename V::Floats sums[rows][PARTS] = {};
    for (int64_t k = 0; k < p.deep; k += 2) {
      typename V::Bits pairs[PARTS];
      for (int part = 0; part < PARTS; part++) {
        const uint16_t* line = weight + (part / PER_BLOCK * p.deep + k) * BLOCK + part % PER_BLOCK * 2 * LANES;
        __builtin_prefetch(line + AHEAD * BLOCK, 0, 0);
        pairs[part] = load<typename V::Bits>(line);
      }
      for (int i = 0; i < rows; i++)
        for (int part = 0; part < PARTS; part++)
          sums[i][part] += typename V::Floats(pairs[part] << 16) * x[i * p.deep + k];
      for (int i = 0; i < rows; i++)
        for (int part = 0; part < PARTS; part++)
          sums[i][part] += typename V::Floats(pairs[part] & 0xFFFF0000) * x[i * p.deep + k + 1];
    }
    for (int i = 0; i < rows; i++)
      for (int part = 0; part < PARTS; part++) store(out + i * STRIP + part * LANES, sums[i][part]);
  }
};

// Vectors of bfloat16 pairs (AVX-512 BF16): one instruction adds two products to a sum. The sums of many rows take so
// long that weights must be on their way before they are needed.
#ifdef __AVX512BF16__
struct Pairing {
  using Number = uint16_t;
  static constexpr bool READS_BEHIND = false;
  static constexpr int ROWS = 14;
  static constexpr int blocks_at_a_time(int rows) { return blocks_for<16>(rows); }

  template <int rows, int blocks>
  static void sums(const Product& p, int64_t row, int64_t block, float* out) {
    const uint16_t* x = static_cast<const uint16_t*>(p.x) + row * p.deep;
    const uint16_t* weight = p.packed + block * BLOCK * p.deep;
    __m512 sums[rows][blocks] = {};
    for (int64_t k = 0; k < p.deep; k += 2) {
      __m512bh pairs[blocks];
      for (int b = 0; b < blocks; b++) {
        const uint16_t* line = weight + (b * p.deep + k) * BLOCK;
        _mm_prefetch(line + AHEAD * BLOCK, _MM_HINT_NTA);
        pairs[b] = (__m512bh)_mm512_loadu_si512(line);
      }
      for (int i = 0; i < rows; i++) {
        const auto both = (__m512bh)_mm512_set1_epi32(load<int32_t>(x + i * p.deep + k));
        for (int b = 0; b < blocks; b++) sums[i][b] = _mm512_dpbf16_ps(sums[i][b], pairs[b], both);
      }
    }
    for (int i = 0; i < rows; i++)
      for (int b = 0; b < blocks; b++) _mm512_storeu_ps(out + i * STRIP + b * BLOCK, sums[i][b]);
  }
};
#endif

// Tiles: 16 rows times 16 outputs, 32 inputs at a time. Rows of x are read up to 31 behind the last.
#ifdef ADED_TILES
struct Tiling {
  using Number = uint16_t;
  Tiling() { begin_tiles(); }
  ~Tiling() { end_tiles(); }
  static constexpr bool READS_BEHIND = true;
  static constexpr int ROWS = 32;
  static int blocks_at_a_time(int rows) { return rows <= 16 ? 4 : 2; }

  static void sums(const Product& p, int64_t row, int rows, int64_t block, int blocks, float* out) {
    const uint16_t* x = static_cast<const uint16_t*>(p.x) + row * p.deep;
    const uint16_t* weight = p.packed + block * BLOCK * p.deep;
    const int64_t to_next = BLOCK * p.deep;  // from a block's weights to the next block's
    CLEAR_TILE(0);
    CLEAR_TILE(1);
    CLEAR_TILE(2);
    CLEAR_TILE(3);
    for (int64_t k = 0; k < p.deep; k += DEEP, x += DEEP, weight += DEEP * BLOCK) {
      LOAD_TILE(4, x, 2 * p.deep);
      LOAD_TILE(6, weight, 64);
      MULTIPLY_TILES(0, 4, 6);
      if (blocks > 1) {
        LOAD_TILE(7, weight + to_next, 64);
        MULTIPLY_TILES(1, 4, 7);
      }
      if (rows > 16) {
        LOAD_TILE(5, x + 16 * p.deep, 2 * p.deep);
        MULTIPLY_TILES(2, 5, 6);
        MULTIPLY_TILES(3, 5, 7);  // of no use, and never read, where there is one block
      } else if (blocks > 2) {
        LOAD_TILE(6, weight + 2 * to_next, 64);
        MULTIPLY_TILES(2, 4, 6);
        LOAD_TILE(7, weight + 3 * to_next, 64);
        MULTIPLY_TILES(3, 4, 7);
      }
    }
    float* rest = rows > 16 ? out + 16 * STRIP : out + 2 * BLOCK;
    STORE_TILE(0, out, 4 * STRIP);
    STORE_TILE(1, out + BLOCK, 4 * STRIP);
    STORE_TILE(2, rest, 4 * STRIP);
    STORE_TILE(3, rest + BLOCK, 4 * STRIP);
  }
};
template <>
inline void sums_of<Tiling>(const Product& p, int64_t row, int rows, int64_t block, int blocks, float* out) {
  Tiling::sums(p, row, rows, block, blocks, out);
}
#endif

// y [rows, outputs] = x @ weight.T + bias, of blocks `begin` to `end`. bias: null for none.
template <class Kernel, class Out>
void multiply_blocks(const Product& p, int64_t begin, int64_t end, const float* bias, Out* y) {
  [[maybe_unused]] const Kernel kernel;
  alignas(64) float sums[Kernel::ROWS * STRIP];
  for (int64_t few = 0; few < p.rows; few += NEAR_ROWS) {
    const int64_t near = std::min(NEAR_ROWS, p.rows - few), passes = (near + Kernel::ROWS - 1) / Kernel::ROWS;
    for (int64_t strip = begin; strip < end; strip += STRIP / BLOCK) {
      const int64_t strip_end = std::min(strip + STRIP / BLOCK, end);
      for (int64_t pass = 0; pass < passes; pass++) {
        const int64_t row = few + near * pass / passes, rows = few + near * (pass + 1) / passes - row;
        int blocks = Kernel::blocks_at_a_time(rows);
        for (int64_t block = strip; block < strip_end; block += blocks) {
          while (blocks > strip_end - block) blocks /= 2;
          sums_of<Kernel>(p, row, rows, block, blocks, sums);
          const int64_t first = block * BLOCK, after = std::min(first + blocks * BLOCK, p.outputs);
          for (int64_t i = 0; i < rows; i++)
            put_all(y + (row + i) * p.outputs + first, sums + i * STRIP, bias ? bias + first : nullptr, after - first);
        }
      }
    }
  }
}

template <class Kernel, class Out>
void multiply(const Product& p, const float* bias, Out* y) {
  const int64_t blocks = up(p.outputs, BLOCK) / BLOCK, chunks = std::min(blocks, CHUNKS);
  pool().run(chunks, [&](uint32_t chunk) {
    multiply_blocks<Kernel>(p, blocks * chunk / chunks, blocks * (chunk + 1) / chunks, bias, y);
  });
}

}  // namespace aded
