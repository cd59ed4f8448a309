#include "kernels/cuda/products/grouped.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/kernels/kernels.hpp"
#include "lib/base/error.hpp"

namespace trireme::cuda {
namespace {

// Returns offset_E1. If the host does not know the numbers, blocks until the stream has computed
// them.
std::vector<std::int32_t> offsets_of(cudaStream_t stream, const ConstView& offset_E1,
                                     const std::vector<std::int32_t>& known,
                                     const Products::Synchronize& synchronize) {
  if (!known.empty()) return known;
  expect(offset_E1.dtype == DType::i32 && offset_E1.dense(), "offsets of experts are dense i32");
  std::vector<std::int32_t> offset(static_cast<std::size_t>(offset_E1.count()));
  synchronize(stream);  // the copy itself would wait without a time limit
  check(cudaMemcpyAsync(offset.data(), offset_E1.data, offset_E1.span_bytes(),
                        cudaMemcpyDeviceToHost, stream),
        "a copy of the offsets of experts");
  synchronize(stream);
  return offset;
}

// Returns n rows of v from row `begin` on. The view may extend beyond the last row.
template <class V>
V rows_from(const V& v, std::int64_t begin, std::int64_t n) {
  V rows = v.slice(0, begin, 0);
  rows.extent[0] = n;
  return rows;
}

std::int64_t rounded(std::int64_t rows) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
}

}  // namespace

void GroupedProducts::multiply(cudaStream_t stream, View workspace, std::int64_t rows,
                               const OfRows& of) {
  const Call call{of(rows), workspace, stream}, alike{of(rounded(rows)), workspace, stream};
  const auto key = key_of(call, Fused::nothing), rounded_key = key_of(alike, Fused::nothing);
  const auto pointers = pointers_of(call, Fused::nothing);
  auto found = algorithms_.find(rounded_key);
  if (found == algorithms_.end()) {
    const auto plan = planner_.describe(rounded_key, pointers);
    found = algorithms_.emplace(rounded_key, planner_.algorithms(rounded_key, plan)).first;
  }
  const auto plan = planner_.describe(key, pointers);
  const auto works = [&](const auto& algorithm) { return planner_.works(algorithm, plan); };
  const auto& algorithms = found->second;
  if (const auto it = std::ranges::find_if(algorithms, works); it != algorithms.end())
    return planner_.run(plan, *it, pointers, call.how, workspace, stream);
  planner_.run(plan, planner_.algorithms(key, plan).front(), pointers, call.how, workspace, stream);
}

void GroupedProducts::run(void* stream, const kernel::GroupedMatmul& o, View workspace) {
  if (o.c_RN.count() == 0) return;
  expect(workspace && workspace.span_bytes() >= cuda_workspace_bytes,
         "products have their workspace");
  auto* const on = static_cast<cudaStream_t>(stream);
  const auto offset = offsets_of(on, o.offset_E1, o.known_offset, synchronize_);
  expect(offset.size() == o.b_KN.size() + 1, "experts have an offset each, and an end");
  for (std::size_t e = 0; e < o.b_KN.size(); ++e) {
    const std::int64_t begin = offset[e], rows = offset[e + 1] - begin;
    if (rows == 0) continue;
    multiply(on, workspace, rows, [&](std::int64_t n) {
      return kernel::Matmul{.c_MN = rows_from(o.c_RN, begin, n),
                            .a_MK = rows_from(o.a_RK, begin, n),
                            .b_KN = o.b_KN[e]};
    });
  }
}

void GroupedProducts::run(void* stream, const kernel::GroupedMatmulGrad& o, View workspace) {
  if (std::ranges::none_of(o.c_MN, [](const View& c) { return c && c.count() > 0; })) return;
  expect(workspace && workspace.span_bytes() >= cuda_workspace_bytes,
         "products have their workspace");
  auto* const on = static_cast<cudaStream_t>(stream);
  const auto offset = offsets_of(on, o.offset_E1, o.known_offset, synchronize_);
  expect(offset.size() == o.c_MN.size() + 1, "experts have an offset each, and an end");
  for (std::size_t e = 0; e < o.c_MN.size(); ++e) {
    const View& c = o.c_MN[e];
    const std::int64_t begin = offset[e], rows = offset[e + 1] - begin;
    if (!c || c.count() == 0) continue;
    if (rows > 0)
      multiply(on, workspace, rows, [&](std::int64_t n) {
        return kernel::Matmul{.c_MN = c,
                              .a_MK = rows_from(o.a_RM, begin, n).transposed(),
                              .b_KN = rows_from(o.b_RN, begin, n),
                              .how = o.how};
      });
    else if (o.how == Accumulate::overwrite)
      cuda::run(kernel::Fill{.dst = c}, OnStream{on, workspace});
  }
}

}  // namespace trireme::cuda
