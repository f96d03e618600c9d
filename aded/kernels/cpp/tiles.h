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
inline bool tiles_work() { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }
inline void begin_tiles() {
  struct alignas(64) Shape {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t lines[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } const shape;
  _tile_loadconfig(&shape);
}
inline void end_tiles() { _tile_release(); }
template <int tile>
void clear_tile() { _tile_zero(tile); }
template <int tile>
void load_tile(const void* from, int64_t stride) { _tile_loadd(tile, from, stride); }
template <int tile>
void store_tile(void* to, int64_t stride) { _tile_stored(tile, to, stride); }
template <int sums, int x, int weight>
void multiply_tiles() { _tile_dpbf16ps(sums, x, weight); }

}  // namespace aded

#elif defined(ADED_SOFTWARE_TILES)
#include "vectors.h"

namespace aded {

#define ADED_TILES
inline thread_local uint8_t tiles[8][16][64];
inline bool tiles_work() { return true; }
inline void begin_tiles() {}
inline void end_tiles() {}
template <int tile>
void clear_tile() { std::memset(tiles[tile], 0, sizeof tiles[tile]); }
template <int tile>
void load_tile(const void* from, int64_t stride) {
  for (int line = 0; line < 16; line++)
    std::memcpy(tiles[tile][line], static_cast<const uint8_t*>(from) + line * stride, 64);
}
template <int tile>
void store_tile(void* to, int64_t stride) {
  for (int line = 0; line < 16; line++) std::memcpy(static_cast<uint8_t*>(to) + line * stride, tiles[tile][line], 64);
}
// sums [16 rows] [16 outputs] += x [16 rows] [16 pairs] times weight [16 pairs] [16 outputs], pairs of bfloat16.
template <int sums, int x, int weight>
void multiply_tiles() {
  for (int row = 0; row < 16; row++)
    for (int pair = 0; pair < 16; pair++)
      for (int output = 0; output < 16; output++)
        for (int half = 0; half < 2; half++) {
          const float product = widened(load<uint16_t>(&tiles[x][row][4 * pair + 2 * half])) *
                                widened(load<uint16_t>(&tiles[weight][pair][4 * output + 2 * half]));
          uint8_t* at = &tiles[sums][row][4 * output];
          store(at, load<float>(at) + product);
        }
}

}  // namespace aded
#endif
