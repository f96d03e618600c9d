// Vectors of float32, in GCC's portable notation, and bfloat16 numbers as the upper halves of float32.

#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace aded {

template <int LANES>
struct Vectors {
  typedef float Floats __attribute__((vector_size(4 * LANES)));
  typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
  typedef uint32_t Bits __attribute__((vector_size(4 * LANES)));
  typedef uint16_t Halves __attribute__((vector_size(2 * LANES)));
};

#ifdef __AVX512F__
constexpr int WIDEST = 16;
#elif defined(__AVX__)
constexpr int WIDEST = 8;
#else
constexpr int WIDEST = 4;
#endif

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int REGISTERS = 32;
#else
constexpr int REGISTERS = 16;
#endif

template <class Vector>
Vector load(const void* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}
template <class Vector>
void store(void* to, Vector vector) {
  std::memcpy(to, &vector, sizeof vector);
}

inline float widened(float x) { return x; }
inline float widened(uint16_t bits) {
  const uint32_t wide = uint32_t(bits) << 16;
  return load<float>(&wide);
}

// LANES numbers of an array, as float32.
template <int LANES>
typename Vectors<LANES>::Floats load_wide(const float* from) {
  return load<typename Vectors<LANES>::Floats>(from);
}
template <int LANES>
typename Vectors<LANES>::Floats load_wide(const uint16_t* from) {
  const auto bits = __builtin_convertvector(load<typename Vectors<LANES>::Halves>(from), typename Vectors<LANES>::Bits);
  return typename Vectors<LANES>::Floats(bits << 16);
}

template <class Number>
void widen_all(float* to, const Number* from, int64_t n) {
  int64_t i = 0;
  for (; i + WIDEST <= n; i += WIDEST) store(to + i, load_wide<WIDEST>(from + i));
  for (; i < n; i++) to[i] = widened(from[i]);
}

// The nearest bfloat16; a tie goes to the even number, as in torch.
inline uint16_t narrowed(float x) {
  const uint32_t bits = load<uint32_t>(&x);
  return x == x ? (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 : 0x7FC0;
}
template <int LANES>
typename Vectors<LANES>::Halves narrowed(typename Vectors<LANES>::Floats x) {
  using Bits = typename Vectors<LANES>::Bits;
  const Bits bits = Bits(x), near = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return __builtin_convertvector(Bits(x == x) & near | ~Bits(x == x) & 0x7FC0, typename Vectors<LANES>::Halves);
}
inline void put(float* to, float x) { *to = x; }
inline void put(uint16_t* to, float x) { *to = narrowed(x); }

// to[i] = from[i], and the numbers of `added` to it where there are any, for i < n.
template <class Out>
void put_all(Out* to, const float* from, const float* added, int64_t n) {
  using Floats = Vectors<WIDEST>::Floats;
  int64_t i = 0;
  for (; i + WIDEST <= n; i += WIDEST) {
    const Floats x = load<Floats>(from + i) + (added ? load<Floats>(added + i) : Floats{});
    if constexpr (sizeof(Out) == 4)
      store(to + i, x);
    else
      store(to + i, narrowed<WIDEST>(x));
  }
  for (; i < n; i++) put(to + i, from[i] + (added ? added[i] : 0));
}

// Memory that a thread keeps from call to call: n numbers from the start of a cache line, with what they held before.
template <class Number>
Number* kept(std::vector<Number>& memory, size_t n) {
  constexpr size_t LINE = 64 / sizeof(Number);
  if (memory.size() < n + LINE) memory.resize(n + LINE);
  return reinterpret_cast<Number*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) & ~uintptr_t(63));
}

}  // namespace aded
