// The kernel for a matrix unit, with its tiles in software, against the kernel for vectors. Compiled by test_tiles.py.

#include <cmath>
#include <cstdio>

#include "linear.h"

using namespace aded;

int main() {
  uint32_t state = 1;
  const auto random_number = [&] { return (int(state = state * 1664525 + 1013904223) >> 8) / float(1 << 23); };
  for (const int64_t outputs : {16, 40, 200})
    for (const int64_t width : {32, 50, 160})
      for (const int64_t rows : {1, 2, 15, 16, 17, 32, 33, 50, 130}) {
        const int64_t deep = up(width, DEEP);
        std::vector<uint16_t> packed(up(outputs, BLOCK) * deep), narrow((rows + MOST_BEHIND) * deep, 0x7FC0);
        std::vector<float> wide(rows * deep), bias(outputs), tiled(rows * outputs), wanted(rows * outputs);
        packed_places(outputs, width, [&](int64_t, int64_t place) { packed[place] = narrowed(random_number()); });
        for (float& one : bias) one = random_number();
        for (int64_t i = 0; i < rows; i++)
          for (int64_t k = 0; k < deep; k++) {
            narrow[i * deep + k] = k < width ? narrowed(random_number()) : 0;
            wide[i * deep + k] = widened(narrow[i * deep + k]);
          }
        multiply<Tiling>({narrow.data(), rows, deep, packed.data(), outputs}, bias.data(), tiled.data());
        multiply<Widening<8>>({wide.data(), rows, deep, packed.data(), outputs}, bias.data(), wanted.data());
        for (int64_t i = 0; i < rows * outputs; i++)
          if (!(std::fabs(tiled[i] - wanted[i]) < 1e-4)) {
            std::printf("%ld rows, %ld x %ld: %g at %ld, not %g\n", rows, outputs, width, tiled[i], i, wanted[i]);
            return 1;
          }
      }
}
