// The kernels as operations of torch, `torch.ops.aded`: shapes, dtypes and memory. The arithmetic is in the headers.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "attention.h"
#include "linear.h"
#include "top_k.h"

namespace {

using namespace aded;

// Calls function(pointer to x's numbers): float, or uint16_t for the bits of bfloat16.
template <class Function>
void by_type(const at::Tensor& x, Function function) {
  if (x.scalar_type() == at::kFloat) return function(x.mutable_data_ptr<float>());
  TORCH_CHECK(x.scalar_type() == at::kBFloat16, "float32 or bfloat16 expected, ", x.scalar_type(), " found");
  function(static_cast<uint16_t*>(x.mutable_data_ptr()));
}

// --- Linear layers. Kernels have numbers, the places in this list.

template <class Function>
void with_kernel(int64_t number, Function function) {
  if (number == 0) return function(Widening<8>{});
#ifdef __AVX512F__
  if (number == 1) return function(Widening<16>{});
#endif
#ifdef __AVX512BF16__
  if (number == 2) return function(Pairing{});
#endif
#ifdef ADED_TILES
  if (number == 3 && tiles_work()) return function(Tiling{});
#endif
}

// Does this kernel run here, for rows in bfloat16 or in float32?
bool runs(int64_t kernel, bool bfloat16) {
  bool found = false;
  with_kernel(kernel, [&](const auto& kind) {
    found = bfloat16 || std::is_same_v<typename std::decay_t<decltype(kind)>::Number, float>;
  });
  return found;
}

at::Tensor pack(const at::Tensor& weight) {
  TORCH_CHECK(weight.scalar_type() == at::kBFloat16 && weight.is_contiguous(), "contiguous bfloat16 weights expected");
  const int64_t outputs = weight.size(0), width = weight.size(1);
  auto packed = at::zeros({up(outputs, BLOCK) / BLOCK, up(width, DEEP) / 2, BLOCK, 2}, weight.options());
  const auto* from = static_cast<const uint16_t*>(weight.const_data_ptr());
  auto* to = static_cast<uint16_t*>(packed.mutable_data_ptr());
  packed_places(outputs, width, [&](int64_t plain, int64_t place) { to[place] = from[plain]; });
  return packed;
}

at::Tensor unpack(const at::Tensor& packed, int64_t outputs, int64_t width) {
  auto weight = at::empty({outputs, width}, packed.options());
  const auto* from = static_cast<const uint16_t*>(packed.const_data_ptr());
  auto* to = static_cast<uint16_t*>(weight.mutable_data_ptr());
  packed_places(outputs, width, [&](int64_t plain, int64_t place) { to[plain] = from[place]; });
  return weight;
}

// Rows of `deep` numbers as the kernel reads them: x itself where it is so already, or a copy in `memory`.
template <class Number, class Given>
const Number* rows_for(const Given* x, int64_t n, int64_t width, int64_t deep, bool may_be_x,
                       std::vector<Number>& memory) {
  if constexpr (std::is_same_v<Number, Given>)
    if (may_be_x && width == deep) return x;
  Number* rows = kept(memory, (n + MOST_BEHIND) * deep);
  for (int64_t i = 0; i < n; i++) {
    if constexpr (std::is_same_v<Number, Given>)
      std::copy_n(x + i * width, width, rows + i * deep);
    else
      widen_all(rows + i * deep, x + i * width, width);
    std::fill(rows + i * deep + width, rows + (i + 1) * deep, 0);
  }
  return rows;
}

// x [.., K]; packed: see linear.h; bias float32 [N] or none. kernels: for 1 row, up to 4, up to 16, more.
// Returns [.., N] in `dtype`, summed in float32.
at::Tensor linear(const at::Tensor& x, const at::Tensor& packed, const std::optional<at::Tensor>& bias, int64_t outputs,
                  at::ScalarType dtype, at::IntArrayRef kernels) {
  const auto rows = x.contiguous();
  auto size = rows.sizes().vec();
  const int64_t width = size.back(), n = rows.numel() / width, deep = packed.size(1) * 2;
  TORCH_CHECK(up(width, DEEP) == deep && up(outputs, BLOCK) == packed.size(0) * BLOCK, "weights do not fit");
  size.back() = outputs;
  auto y = at::empty(size, rows.options().dtype(dtype));
  const float* added = bias ? bias->const_data_ptr<float>() : nullptr;
  bool done = false;
  with_kernel(kernels[n <= 1 ? 0 : n <= 4 ? 1 : n <= 16 ? 2 : 3], [&](const auto& kind) {
    using Kernel = std::decay_t<decltype(kind)>;
    using Number = typename Kernel::Number;
    static thread_local std::vector<Number> memory;
    by_type(rows, [&](auto* given) {
      if constexpr (std::is_same_v<Number, float> || !std::is_same_v<decltype(given), float*>) {
        const Number* read = rows_for<Number>(given, n, width, deep, !Kernel::READS_BEHIND, memory);
        const Product product{read, n, deep, static_cast<const uint16_t*>(packed.const_data_ptr()), outputs};
        by_type(y, [&](auto* out) { multiply<Kernel>(product, added, out); });
        done = true;
      }
    });
  });
  TORCH_CHECK(done, "a kernel that does not run here for ", rows.scalar_type());
  return y;
}

// --- Attention.

// query [1, heads, n, d]; keys, values [1, kv heads, rows, d], views of a preallocated cache or not; mask bool
// [1, 1, n, rows], none where every row is seen. Returns [1, n, heads, d].
at::Tensor tree_attention(const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values,
                          const std::optional<at::Tensor>& mask, double scale) {
  static thread_local std::vector<float> query_memory, out_memory;
  const int64_t heads = query.size(1), n = query.size(2), d = query.size(3), rows = keys.size(2);
  const auto fits = [&](const at::Tensor& stored) {
    return stored.stride(3) == 1 && stored.stride(2) == d && stored.stride(1) % d == 0;
  };
  const bool both = fits(keys) && fits(values) && keys.stride(1) == values.stride(1);
  TORCH_CHECK(query.stride(3) == 1, "the numbers of a query must lie together");
  const auto key_rows = both ? keys : keys.contiguous(), value_rows = both ? values : values.contiguous();
  TORCH_CHECK(key_rows.stride(1) == value_rows.stride(1) && keys.scalar_type() == values.scalar_type(),
              "keys and values differ");
  std::optional<at::Tensor> seen;
  if (mask) seen = mask->contiguous();
  auto y = at::empty({1, n, heads, d}, query.options());
  float* wide = kept(query_memory, heads * n * d);
  float* out = kept(out_memory, heads * n * d);
  by_type(query, [&](auto* from) {
    for (int64_t h = 0; h < heads; h++)
      for (int64_t i = 0; i < n; i++)
        widen_all(wide + (h * n + i) * d, from + h * query.stride(1) + i * query.stride(2), d);
  });
  by_type(key_rows, [&](auto* stored) {
    using Stored = std::decay_t<decltype(*stored)>;
    attend(Attention<Stored>{wide, stored, static_cast<const Stored*>(value_rows.const_data_ptr()),
                             seen ? seen->const_data_ptr<bool>() : nullptr, float(scale), heads, keys.size(1), n, rows,
                             keys.size(1) == 1 ? rows : key_rows.stride(1) / d, d, out});
  });
  by_type(y, [&](auto* to) { put_all(to, out, nullptr, heads * n * d); });
  return y;
}

// --- The largest logits.

// rows [n, size]. Returns (values float32 [n, k], indices int64 [n, k]), the largest first.
std::tuple<at::Tensor, at::Tensor> largest(const at::Tensor& rows, int64_t k) {
  const auto given = rows.contiguous();
  const int64_t n = given.size(0), size = given.size(1);
  TORCH_CHECK(0 < k && k <= size, "1 to ", size, " numbers of a row expected, ", k, " found");
  auto values = at::empty({n, k}, given.options().dtype(at::kFloat));
  auto indices = at::empty({n, k}, given.options().dtype(at::kLong));
  by_type(given, [&](auto* from) {
    top_k(from, n, size, k, values.mutable_data_ptr<float>(), indices.mutable_data_ptr<int64_t>());
  });
  return {values, indices};
}

}  // namespace

TORCH_LIBRARY(aded, library) {
  library.def("pack(Tensor weight) -> Tensor", &pack);
  library.def("unpack(Tensor packed, int outputs, int width) -> Tensor", &unpack);
  library.def("runs(int kernel, bool bfloat16) -> bool", &runs);
  library.def("use_threads(int threads) -> ()", [](int64_t threads) { pool().use(int(threads)); });
  library.def("threads() -> int", [] { return int64_t(pool().threads()); });
  library.def("linear(Tensor x, Tensor packed, Tensor? bias, int outputs, ScalarType dtype, int[] kernels) -> Tensor");
  library.def("tree_attention(Tensor query, Tensor keys, Tensor values, Tensor? mask, float scale) -> Tensor");
  library.def("top_k(Tensor rows, int k) -> (Tensor, Tensor)", &largest);
}

TORCH_LIBRARY_IMPL(aded, CPU, library) {
  library.impl("linear", &linear);
  library.impl("tree_attention", &tree_attention);
}
