// A matrix unit's tiles (Intel AMX): eight registers of 16 lines of 64 bytes, and the product of two of them.
//
// With ADED_SOFTWARE_TILES the same operations are computed plainly, so that tests of the kernel in linear.h need no
// such processor.

#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && !defined(ADED_SOFTWARE_TILES)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace aded {

#define ADED_TILES
// Linux lets a process use tiles only when it has asked (ARCH_REQ_XCOMP_PERM, 18 = tile data).
inline bool tiles_work() {
  static const bool granted = syscall(SYS_arch_prctl, 0x1023, 18) == 0;
  return granted;
}
inline void begin_tiles() {
  struct alignas(64) Shape {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t lines[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } const shape;
  _tile_loadconfig(&shape);
}
inline void end_tiles() { _tile_release(); }
// Macros, since compilers want the tiles' numbers as they are written.
#define CLEAR_TILE(tile) _tile_zero(tile)
#define LOAD_TILE(tile, from, stride) _tile_loadd(tile, from, stride)
#define STORE_TILE(tile, to, stride) _tile_stored(tile, to, stride)
#define MULTIPLY_TILES(sums, x, weight) _tile_dpbf16ps(sums, x, weight)

}  // namespace aded

#elif defined(ADED_SOFTWARE_TILES)
#include "vectors.h"

namespace aded {

#define ADED_TILES
inline thread_local uint8_t tiles[8][16][64];
inline bool tiles_work() { return true; }
inline void begin_tiles() {}
inline void end_tiles() {}
#define CLEAR_TILE(tile) std::memset(tiles[tile], 0, sizeof tiles[tile])
#define LOAD_TILE(tile, from, stride) copy_lines(tiles[tile][0], 64, from, stride)
#define STORE_TILE(tile, to, stride) copy_lines(to, stride, tiles[tile][0], 64)
#define MULTIPLY_TILES(sums, x, weight) multiply_tiles(tiles[sums], tiles[x], tiles[weight])

inline void copy_lines(void* to, int64_t to_stride, const void* from, int64_t stride) {
  for (int line = 0; line < 16; line++)
    std::memcpy(static_cast<uint8_t*>(to) + line * to_stride, static_cast<const uint8_t*>(from) + line * stride, 64);
}
// sums [16 rows] [16 outputs] += x [16 rows] [16 pairs] times weight [16 pairs] [16 outputs], pairs of bfloat16.
inline void multiply_tiles(uint8_t (&sums)[16][64], const uint8_t (&x)[16][64], const uint8_t (&weight)[16][64]) {
  for (int row = 0; row < 16; row++)
    for (int pair = 0; pair < 16; pair++)
      for (int output = 0; output < 16; output++)
        for (int half = 0; half < 2; half++) {
          const float product = widened(load<uint16_t>(&x[row][4 * pair + 2 * half])) *
                                widened(load<uint16_t>(&weight[pair][4 * output + 2 * half]));
          store(&sums[row][4 * output], load<float>(&sums[row][4 * output]) + product);
        }
}

}  // namespace aded
#endif
