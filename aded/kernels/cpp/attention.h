// Softmax attention of a few query rows on the keys and values of a KV cache.
//
// A query row's result depends on the rows that it sees and their order alone, to the last bit: not on the rows
// between, nor on the other queries. So a node has the same result in a tree and as a token decoded alone.

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "pool.h"
#include "vectors.h"

namespace aded {

constexpr int TILE = 32;      // keys whose scores are computed at a time
constexpr int TOGETHER = REGISTERS * 3 / 8;  // query rows that are computed at a time, each with two vectors of sums
constexpr int STRETCH = 128;  // keys of a thread's chunk

// One call's arguments. Stored: float, or uint16_t for bfloat16. The query rows of heads / kv_heads neighbouring heads
// share keys and values.
template <class Stored>
struct Attention {
  const float* query;             // [heads, n, d]
  const Stored *keys, *values;    // [kv_heads, capacity, d]
  const bool* mask;               // [n, rows]; null: every row is seen
  float scale;                    // factor of the scores
  int64_t heads, kv_heads, n, rows, capacity, d;
  float* out;                     // [n, heads, d]
};

// The cache rows that a node sees: a stretch from `begin` to `end`, then some more, in order.
struct Seen {
  int64_t begin = 0, end = 0;
  std::vector<int64_t> more;
  int64_t count() const { return end - begin + int64_t(more.size()); }
  bool any_of(int64_t from, int64_t until) const {  // may say yes where gaps lie between
    return begin < until && (more.empty() ? end : more.back() + 1) > from;
  }
};

inline Seen seen_of(const bool* mask, int64_t rows) {
  Seen seen;
  if (!mask) return {0, rows, {}};
  const auto next = [&](int64_t row, bool value) {
    const void* found = std::memchr(mask + row, value, rows - row);
    return found ? static_cast<const bool*>(found) - mask : rows;
  };
  seen.begin = next(0, true);
  seen.end = next(seen.begin, false);
  for (int64_t row = next(seen.end, true); row < rows; row = next(row + 1, true)) seen.more.push_back(row);
  return seen;
}

// --- Scores: query rows times keys.

typedef Vectors<8>::Floats Eight;

// Eight rows of eight numbers, turned: what was row i is column i.
inline void turn(Eight (&rows)[8]) {
  typedef Vectors<8>::Ints Order;
  Eight a[8], b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = __builtin_shuffle(rows[i], rows[i + 1], Order{0, 8, 1, 9, 4, 12, 5, 13});
    a[i + 1] = __builtin_shuffle(rows[i], rows[i + 1], Order{2, 10, 3, 11, 6, 14, 7, 15});
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; j++) {
      b[i + 2 * j] = __builtin_shuffle(a[i + j], a[i + j + 2], Order{0, 1, 8, 9, 4, 5, 12, 13});
      b[i + 2 * j + 1] = __builtin_shuffle(a[i + j], a[i + j + 2], Order{2, 3, 10, 11, 6, 7, 14, 15});
    }
  for (int i = 0; i < 4; i++) {
    rows[i] = __builtin_shuffle(b[i], b[i + 4], Order{0, 1, 2, 3, 8, 9, 10, 11});
    rows[i + 4] = __builtin_shuffle(b[i], b[i + 4], Order{4, 5, 6, 7, 12, 13, 14, 15});
  }
}

// keys: `count` rows of d numbers, at most TILE. tile [d] [TILE], float32; what lies behind `count` is not set.
template <class Stored>
void turn_keys(const Stored* keys, int64_t count, int64_t d, float* tile) {
  int64_t key = 0;
  for (; key + 8 <= count; key += 8) {
    int64_t c = 0;
    for (; c + 8 <= d; c += 8) {
      Eight rows[8];
      for (int i = 0; i < 8; i++) rows[i] = load_wide<8>(keys + (key + i) * d + c);
      turn(rows);
      for (int i = 0; i < 8; i++) store(tile + (c + i) * TILE + key, rows[i]);
    }
    for (; c < d; c++)
      for (int i = 0; i < 8; i++) tile[c * TILE + key + i] = widened(keys[(key + i) * d + c]);
  }
  for (; key < count; key++)
    for (int64_t c = 0; c < d; c++) tile[c * TILE + key] = widened(keys[key * d + c]);
}

// out [ROWS] [TILE] = ROWS rows of query [.., d] times a tile's keys; row i of out begins at out + i * stride.
template <int ROWS>
void score(const float* query, int64_t d, const float* tile, float* out, int64_t stride) {
  using Floats = Vectors<WIDEST>::Floats;
  constexpr int PARTS = TILE / WIDEST;
  for (int half = 0; half < PARTS; half += 2) {  // as many sums at a time as there are registers for
    Floats sums[ROWS][2] = {};
    for (int64_t c = 0; c < d; c++)
      for (int part = 0; part < 2; part++) {
        const auto keys = load<Floats>(tile + c * TILE + (half + part) * WIDEST);
        for (int i = 0; i < ROWS; i++) sums[i][part] += keys * query[i * d + c];
      }
    for (int i = 0; i < ROWS; i++)
      for (int part = 0; part < 2; part++) store(out + i * stride + (half + part) * WIDEST, sums[i][part]);
  }
}

// --- Blending: the mean of values, weighted by the softmax of the scores.

// out [ROWS] [d] += the sums over s < count of weights[i][s] times the value row_of(s).
template <int ROWS, class Stored, class RowOf>
void blend(const Stored* values, int64_t d, int64_t count, RowOf row_of, const float* const* weights,
           float* const* out) {
  using Floats = Vectors<WIDEST>::Floats;
  constexpr int PARTS = ROWS * 8 <= REGISTERS ? 4 : 2;  // as many sums at a time as there are registers for
  int64_t c = 0;
  for (; c + PARTS * WIDEST <= d; c += PARTS * WIDEST) {
    Floats sums[ROWS][PARTS];
    for (int i = 0; i < ROWS; i++)
      for (int part = 0; part < PARTS; part++) sums[i][part] = load<Floats>(out[i] + c + part * WIDEST);
    for (int64_t s = 0; s < count; s++)
      for (int part = 0; part < PARTS; part++) {
        const Floats value = load_wide<WIDEST>(values + row_of(s) * d + c + part * WIDEST);
        for (int i = 0; i < ROWS; i++) sums[i][part] += value * weights[i][s];
      }
    for (int i = 0; i < ROWS; i++)
      for (int part = 0; part < PARTS; part++) store(out[i] + c + part * WIDEST, sums[i][part]);
  }
  for (; c < d; c++)
    for (int i = 0; i < ROWS; i++)
      for (int64_t s = 0; s < count; s++)
        out[i][c] = std::fma(widened(values[row_of(s) * d + c]), weights[i][s], out[i][c]);
}

constexpr float LEAST = -87;  // powers of e below this are no more than 1e-38

// e to the power x, for LEAST < x <= 0, with an error of at most 2 units in the last place: e^x = 2^t, t = x / ln 2.
// The integer part of t becomes the exponent's bits; a Taylor series yields the rest.
template <class Floats, class Ints>
Floats power_of_e(Floats x) {
  const Floats t = x * 1.442695041f;
  const Ints whole = __builtin_convertvector(t - 0.5f, Ints);  // rounded towards 0, and t is not positive
  const Floats f = (t - __builtin_convertvector(whole, Floats)) * 0.693147181f;
  Floats series = 1.0f / 720 + f * (1.0f / 5040);
  series = 1.0f / 120 + f * series;
  series = 1.0f / 24 + f * series;
  series = 1.0f / 6 + f * series;
  series = 0.5f + f * series;
  series = 1.0f + f * (1.0f + f * series);
  return series * Floats((whole + 127) << 23);
}

// Turns scores into weights e^(scale * score - the highest), of the rows that are seen, in their order; returns the
// weights' sum. weights: memory for count() numbers, rounded up to a vector.
inline float weigh(const float* scores, const Seen& seen, float scale, float* weights) {
  using V = Vectors<WIDEST>;
  using Floats = V::Floats;
  const int64_t stretch = seen.end - seen.begin, count = seen.count(), whole = (count + WIDEST - 1) / WIDEST * WIDEST;
  std::copy(scores + seen.begin, scores + seen.end, weights);
  for (size_t i = 0; i < seen.more.size(); i++) weights[stretch + i] = scores[seen.more[i]];
  std::fill(weights + count, weights + whole, -std::numeric_limits<float>::infinity());
  Floats most = load<Floats>(weights) * scale;
  for (int64_t i = WIDEST; i < whole; i += WIDEST) {
    const Floats some = load<Floats>(weights + i) * scale;
    most = some > most ? some : most;
  }
  float highest = most[0];
  for (int lane = 1; lane < WIDEST; lane++) highest = std::max(highest, most[lane]);
  Floats sums = {};
  for (int64_t i = 0; i < whole; i += WIDEST) {
    const Floats x = load<Floats>(weights + i) * scale - highest;
    const Floats powers = x > LEAST ? power_of_e<Floats, V::Ints>(x) : Floats{};  // also behind the last row
    store(weights + i, powers);
    sums += powers;
  }
  float sum = 0;
  for (int lane = 0; lane < WIDEST; lane++) sum += sums[lane];
  return sum;
}

// The query rows `first` to `first` + ROWS of those that share keys and values.
template <int ROWS, class Stored>
void blend_rows(const Attention<Stored>& a, const std::vector<Seen>& seen, int64_t kv, int64_t first,
                const float* scores, int64_t stride) {
  static thread_local std::vector<float> memory;
  const int64_t shared = a.heads / a.kv_heads * a.n;
  float* weights = kept(memory, ROWS * (stride + a.d));
  const Stored* values = a.values + kv * a.capacity * a.d;
  const float* weights_of[ROWS];
  float *sums_of[ROWS], total[ROWS];
  bool alike = true;
  for (int i = 0; i < ROWS; i++) {
    const Seen& rows = seen[(first + i) % a.n];
    total[i] = weigh(scores + (kv * shared + first + i) * stride, rows, a.scale, weights + i * stride);
    weights_of[i] = weights + i * stride;
    sums_of[i] = weights + ROWS * stride + i * a.d;
    std::fill_n(sums_of[i], a.d, 0.0f);
    alike &= rows.begin == seen[first % a.n].begin && rows.end == seen[first % a.n].end;
  }
  const auto stretch = [&](const Seen& rows) { return [from = rows.begin](int64_t s) { return from + s; }; };
  const Seen& all = seen[first % a.n];
  if (alike) blend<ROWS>(values, a.d, all.end - all.begin, stretch(all), weights_of, sums_of);
  for (int i = 0; i < ROWS; i++) {
    const Seen& rows = seen[(first + i) % a.n];
    if (!alike) blend<1>(values, a.d, rows.end - rows.begin, stretch(rows), weights_of + i, sums_of + i);
    const float* weights_of_more = weights_of[i] + rows.end - rows.begin;
    blend<1>(values, a.d, rows.more.size(), [&](int64_t s) { return rows.more[s]; }, &weights_of_more, sums_of + i);
    const int64_t query = kv * shared + first + i;
    float* out = a.out + (query % a.n * a.heads + query / a.n) * a.d;
    const float factor = rows.count() ? total[i] : 0;  // 0 / 0: a row that sees nothing has no result
    for (int64_t c = 0; c < a.d; c++) out[c] = sums_of[i][c] / factor;
  }
}

// Calls function(the number of rows, from 1 to TOGETHER, as a constant).
template <int ROWS = 1, class Function>
void with_rows(int64_t rows, Function function) {
  if constexpr (ROWS < TOGETHER)
    if (rows > ROWS) return with_rows<ROWS + 1>(rows, function);
  function(std::integral_constant<int, ROWS>{});
}

template <class Stored>
void attend(const Attention<Stored>& a) {
  static thread_local std::vector<float> memory;
  const int64_t shared = a.heads / a.kv_heads * a.n, stride = (a.rows + TILE - 1) / TILE * TILE;
  float* scores = kept(memory, a.heads * a.n * stride);
  std::vector<Seen> seen;
  for (int64_t i = 0; i < a.n; i++) seen.push_back(seen_of(a.mask ? a.mask + i * a.rows : nullptr, a.rows));

  const int64_t stretches = (a.rows + STRETCH - 1) / STRETCH;
  pool().run(a.kv_heads * stretches, [&](uint32_t chunk) {
    static thread_local std::vector<float> tile_memory;
    float* tile = kept(tile_memory, a.d * TILE);
    const int64_t kv = chunk / stretches, begin = chunk % stretches * STRETCH;
    for (int64_t key = begin; key < std::min(begin + STRETCH, a.rows); key += TILE) {
      bool turned = false;
      for (int64_t row = 0; row < shared; row += TOGETHER)
        with_rows(shared - row, [&](auto rows) {
          bool any = false;  // requests that share a step see keys of their own alone
          for (int i = 0; i < rows.value; i++) any |= seen[(row + i) % a.n].any_of(key, key + TILE);
          if (!any) return;
          if (!turned)
            turn_keys(a.keys + (kv * a.capacity + key) * a.d, std::min<int64_t>(TILE, a.rows - key), a.d, tile);
          turned = true;
          const int64_t query = kv * shared + row;
          score<rows.value>(a.query + query * a.d, a.d, tile, scores + query * stride + key, stride);
        });
    }
  });
  const int64_t pieces = (shared + TOGETHER - 1) / TOGETHER;
  pool().run(a.kv_heads * pieces, [&](uint32_t chunk) {
    const int64_t kv = chunk / pieces, piece = chunk % pieces;
    const int64_t first = shared * piece / pieces;
    with_rows(shared * (piece + 1) / pieces - first,
              [&](auto rows) { blend_rows<rows.value>(a, seen, kv, first, scores, stride); });
  });
}

}  // namespace aded
