// The two operations of a decoding step on a processor, for graphs of torch.compile: shapes, dtypes and threads.
// The arithmetic is that of aded/bf16_linear.py and aded/tree_attention.py, whose compiled functions are handed over once
// by `use_kernels`; calling them from here costs a hundredth of a call through Python.

#include <ATen/ATen.h>
#include <omp.h>
#include <torch/library.h>

#include <cstring>
#include <vector>

namespace {

// Addresses, sizes in elements; `thread` of `threads` does its share.
using Fold = void (*)(intptr_t x, intptr_t folded, intptr_t n, intptr_t width);
using Multiply = void (*)(intptr_t x, intptr_t n, intptr_t width, intptr_t weight, intptr_t outputs, intptr_t y,
                          intptr_t thread, intptr_t threads);
using Attend = void (*)(intptr_t query, intptr_t keys, intptr_t values, intptr_t mask, float scale, intptr_t out,
                        intptr_t heads, intptr_t kv_heads, intptr_t n, intptr_t rows, intptr_t capacity,
                        intptr_t width, intptr_t thread, intptr_t threads);
struct Kernels {
  Fold fold;
  Multiply multiply;
  Attend attend_float32, attend_bfloat16;
} kernels;

float widened(float x) { return x; }
float widened(at::BFloat16 x) { return x; }
void narrow(const float* from, float* to, int64_t n) { std::memcpy(to, from, n * sizeof(float)); }
void narrow(const float* from, at::BFloat16* to, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = from[i];
}
intptr_t at_(const void* pointer) { return reinterpret_cast<intptr_t>(pointer); }

// Memory that a thread keeps between calls, on a cache line: a step allocates nothing but its results.
float* kept(std::vector<float>& memory, int64_t n) {
  if (memory.size() < size_t(n) + 16) memory.resize(n + 16);
  return reinterpret_cast<float*>((at_(memory.data()) + 63) & ~intptr_t(63));
}

// Reads `x` with the type of its elements.
template <class Function>
void by_type(const at::Tensor& x, Function function) {
  if (x.scalar_type() == at::kFloat) {
    function(float{});
  } else {
    TORCH_CHECK(x.scalar_type() == at::kBFloat16, "float32 or bfloat16 expected, ", x.scalar_type(), " found");
    function(at::BFloat16{});
  }
}

// [.., K] and weight bfloat16 [N, K] to [.., N] in `dtype`, summed in float32.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                  at::ScalarType dtype) {
  static thread_local std::vector<float> wide_memory, folded_memory, sum_memory;
  const auto rows = x.contiguous();
  auto size = rows.sizes().vec();
  const int64_t width = size.back(), n = rows.numel() / width, outputs = weight.size(0);
  size.back() = outputs;
  auto y = at::empty(size, rows.options().dtype(dtype));
  float* wide = kept(wide_memory, n * width);
  float* folded = kept(folded_memory, n * width);
  by_type(rows, [&](auto zero) {
    const auto* from = rows.const_data_ptr<decltype(zero)>();
    for (int64_t i = 0; i < n * width; i++) wide[i] = widened(from[i]);
  });
  kernels.fold(at_(wide), at_(folded), n, width);
  by_type(y, [&](auto zero) {
    using T = decltype(zero);
    T* to = y.mutable_data_ptr<T>();
    constexpr bool direct = std::is_same_v<T, float>;
    float* sums = direct ? reinterpret_cast<float*>(to) : kept(sum_memory, n * outputs);
    const float* added = bias ? bias->const_data_ptr<float>() : nullptr;
#pragma omp parallel
    {
      const int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
      kernels.multiply(at_(folded), n, width, at_(weight.const_data_ptr()), outputs, at_(sums), thread, threads);
      if (!direct || added) {
#pragma omp barrier
        const int64_t begin = outputs * thread / threads, end = outputs * (thread + 1) / threads;
        for (int64_t i = 0; i < n; i++) {
          float* row = sums + i * outputs;
          if (added)
            for (int64_t j = begin; j < end; j++) row[j] += added[j];
          if (!direct) narrow(row + begin, to + i * outputs + begin, end - begin);
        }
      }
    }
  });
  return y;
}

// [1, heads, n, d] on views [1, kv heads, rows, d] of slabs, mask bool [1, 1, n, rows], to [1, n, heads, d].
at::Tensor tree_attention(const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values,
                          const at::Tensor& mask, double scale) {
  static thread_local std::vector<float> query_memory, sum_memory;
  const int64_t heads = query.size(1), n = query.size(2), d = query.size(3), rows = keys.size(2);
  TORCH_CHECK(keys.stride(3) == 1 && keys.stride(2) == d && keys.stride(1) % d == 0, "keys are no view of a slab");
  TORCH_CHECK(values.strides() == keys.strides() && values.scalar_type() == keys.scalar_type(), "values differ");
  TORCH_CHECK(mask.is_contiguous() && mask.size(2) == n && mask.size(3) == rows, "mask does not fit");
  const int64_t capacity = keys.size(1) == 1 ? rows : keys.stride(1) / d;
  auto y = at::empty({1, n, heads, d}, query.options());
  float* wide = kept(query_memory, heads * n * d);
  by_type(query, [&](auto zero) {
    const auto* from = query.const_data_ptr<decltype(zero)>();
    for (int64_t h = 0; h < heads; h++)
      for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < d; c++)
          wide[(h * n + i) * d + c] = widened(from[h * query.stride(1) + i * query.stride(2) + c * query.stride(3)]);
  });
  float* sums = kept(sum_memory, heads * n * d);
  const auto attend = keys.scalar_type() == at::kFloat ? kernels.attend_float32 : kernels.attend_bfloat16;
#pragma omp parallel
  attend(at_(wide), at_(keys.const_data_ptr()), at_(values.const_data_ptr()), at_(mask.const_data_ptr()), scale,
         at_(sums), heads, keys.size(1), n, rows, capacity, d, omp_get_thread_num(), omp_get_num_threads());
  by_type(y, [&](auto zero) { narrow(sums, y.mutable_data_ptr<decltype(zero)>(), heads * n * d); });
  return y;
}

}  // namespace

extern "C" void use_kernels(void* fold, void* multiply, void* attend_float32, void* attend_bfloat16) {
  kernels = {reinterpret_cast<Fold>(fold), reinterpret_cast<Multiply>(multiply),
             reinterpret_cast<Attend>(attend_float32), reinterpret_cast<Attend>(attend_bfloat16)};
}

TORCH_LIBRARY(aded, library) {
  library.def("linear(Tensor x, Tensor weight, Tensor? bias, ScalarType dtype) -> Tensor");
  library.def("tree_attention(Tensor query, Tensor keys, Tensor values, Tensor mask, float scale) -> Tensor");
}

TORCH_LIBRARY_IMPL(aded, CPU, library) {
  library.impl("linear", &linear);
  library.impl("tree_attention", &tree_attention);
}
