// The largest numbers of rows, such as a vocabulary's logits, read once.

#pragma once

#include "pool.h"
#include "vectors.h"

namespace aded {

constexpr int64_t GLANCE = 128;  // numbers whose largest is compared first: most hold none that counts

template <class Number>
float highest_of(const Number* numbers) {
  using Floats = Vectors<WIDEST>::Floats;
  Floats highest = load_wide<WIDEST>(numbers);
  for (int64_t i = WIDEST; i < GLANCE; i += WIDEST) {
    const Floats others = load_wide<WIDEST>(numbers + i);
    highest = others > highest ? others : highest;
  }
  float one = highest[0];
  for (int lane = 1; lane < WIDEST; lane++) one = highest[lane] > one ? highest[lane] : one;
  return one;
}

// row: `size` numbers. values, indices [k], k <= size: the k largest and where they are, the largest first; of equal
// ones the first comes first.
template <class Number>
void largest_of_row(const Number* row, int64_t size, int64_t k, float* values, int64_t* indices) {
  int64_t found = 0;
  const auto offer = [&](int64_t index) {
    const float value = widened(row[index]);
    if (found == k && !(value > values[k - 1])) return;
    int64_t at = found < k ? found++ : k - 1;
    for (; at > 0 && value > values[at - 1]; at--) values[at] = values[at - 1], indices[at] = indices[at - 1];
    values[at] = value, indices[at] = index;
  };
  int64_t index = 0;
  for (; index < k; index++) offer(index);
  for (; index + GLANCE <= size; index += GLANCE)
    if (highest_of(row + index) > values[k - 1])
      for (int64_t i = 0; i < GLANCE; i++) offer(index + i);
  for (; index < size; index++) offer(index);
}

template <class Number>
void top_k(const Number* rows, int64_t n, int64_t size, int64_t k, float* values, int64_t* indices) {
  pool().run(n, [&](uint32_t row) {
    largest_of_row(rows + row * size, size, k, values + row * k, indices + row * k);
  });
}

}  // namespace aded
