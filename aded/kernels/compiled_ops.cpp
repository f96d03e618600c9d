// The operations of a decoding step on a processor, for graphs of torch.compile: shapes, dtypes and threads.
// The arithmetic is in linear_product.py and attention_product.py; `use_kernels` receives their compiled functions.
// Calling them from here costs a hundredth of a call through Python.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <cstring>
#include <vector>

namespace {

// Addresses, and sizes in elements. `x_bytes`, `y_bytes` are the bytes per number: 4 for float32, 2 for bfloat16.
// Every thread makes the same call and takes its share by `counter`, see simd.take.
using Multiply = void (*)(intptr_t x, intptr_t x_bytes, intptr_t n, intptr_t width, intptr_t weight, intptr_t outputs,
                          intptr_t bias, intptr_t biases, intptr_t y, intptr_t y_bytes, intptr_t counter);
using Attend = void (*)(intptr_t query, intptr_t keys, intptr_t values, intptr_t mask, float scale, intptr_t out,
                        intptr_t heads, intptr_t kv_heads, intptr_t n, intptr_t rows, intptr_t capacity,
                        intptr_t width, intptr_t counter);
struct Kernels {
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

// n floats from the start of a cache line, in memory that a thread reuses: a step allocates only its results.
float* buffer(std::vector<float>& memory, int64_t n) {
  if (memory.size() < size_t(n) + 16) memory.resize(n + 16);
  return reinterpret_cast<float*>((at_(memory.data()) + 63) & ~intptr_t(63));
}

void check(const at::Tensor& x) {
  TORCH_CHECK(x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16,
              "float32 or bfloat16 expected, ", x.scalar_type(), " found");
}

// Calls `function` with a zero of the type of x's elements.
template <class Function>
void by_type(const at::Tensor& x, Function function) {
  check(x);
  if (x.scalar_type() == at::kFloat) {
    function(float{});
  } else {
    function(at::BFloat16{});
  }
}

// x [.., K], weight bfloat16 [N, K], bias float32 [N] or none. Returns [.., N] in `dtype`, summed in float32.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                  at::ScalarType dtype) {
  const auto rows = x.contiguous();
  auto size = rows.sizes().vec();
  const int64_t width = size.back(), n = rows.numel() / width, outputs = weight.size(0);
  size.back() = outputs;
  auto y = at::empty(size, rows.options().dtype(dtype));
  check(rows), check(y);
  const intptr_t added = bias ? at_(bias->const_data_ptr<float>()) : 0;
  int64_t counter = 0;
#pragma omp parallel
  kernels.multiply(at_(rows.const_data_ptr()), rows.element_size(), n, width, at_(weight.const_data_ptr()), outputs,
                   added, added ? outputs : 0, at_(y.mutable_data_ptr()), y.element_size(), at_(&counter));
  return y;
}

// query [1, heads, n, d]; keys, values [1, kv heads, rows, d], views of a preallocated cache; mask bool [1, 1, n, rows].
// Returns [1, n, heads, d].
at::Tensor tree_attention(const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values,
                          const at::Tensor& mask, double scale) {
  static thread_local std::vector<float> query_memory, sum_memory;
  const int64_t heads = query.size(1), n = query.size(2), d = query.size(3), rows = keys.size(2);
  TORCH_CHECK(keys.stride(3) == 1 && keys.stride(2) == d && keys.stride(1) % d == 0, "keys are no view of a cache");
  TORCH_CHECK(values.strides() == keys.strides() && values.scalar_type() == keys.scalar_type(), "values differ");
  TORCH_CHECK(mask.is_contiguous() && mask.size(2) == n && mask.size(3) == rows, "mask does not fit");
  const int64_t capacity = keys.size(1) == 1 ? rows : keys.stride(1) / d;
  auto y = at::empty({1, n, heads, d}, query.options());
  float* wide = buffer(query_memory, heads * n * d);
  by_type(query, [&](auto zero) {
    const auto* from = query.const_data_ptr<decltype(zero)>();
    for (int64_t h = 0; h < heads; h++)
      for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < d; c++)
          wide[(h * n + i) * d + c] = widened(from[h * query.stride(1) + i * query.stride(2) + c * query.stride(3)]);
  });
  float* sums = buffer(sum_memory, heads * n * d);
  const auto attend = keys.scalar_type() == at::kFloat ? kernels.attend_float32 : kernels.attend_bfloat16;
  int64_t counter = 0;
#pragma omp parallel
  attend(at_(wide), at_(keys.const_data_ptr()), at_(values.const_data_ptr()), at_(mask.const_data_ptr()), scale,
         at_(sums), heads, keys.size(1), n, rows, capacity, d, at_(&counter));
  by_type(y, [&](auto zero) { narrow(sums, y.mutable_data_ptr<decltype(zero)>(), heads * n * d); });
  return y;
}

}  // namespace

extern "C" void use_kernels(void* multiply, void* attend_float32, void* attend_bfloat16) {
  kernels = {reinterpret_cast<Multiply>(multiply),
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
