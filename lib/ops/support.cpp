#include "lib/ops/support.hpp"

#include <algorithm>

namespace trireme::ops {

View as_rows(const Tensor& x) {
  const auto& s = x.shape();
  const auto width = s[s.dims() - 1];
  return x.view().reshaped({s.count() / width, width});
}

SumOrder sum_order(const Run& run) {
  return run.place.exact_chunk > 0 ? SumOrder::by_shape : SumOrder::any;
}

void multiply_rows(const Run& run, const kernel::Matmul& all) {
  const auto rows = all.c_MN.extent[0], chunk = run.place.exact_chunk;
  if (chunk == 0) return run.backend.put(Queue::compute, all);
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    const Rows r{begin, std::min(rows, begin + chunk)};
    const auto part = [&](const auto& v) { return v ? rows_of(v, r) : v; };
    auto one = all;
    one.order = sum_order(run);
    one.c_MN = part(all.c_MN);
    one.a_MK = part(all.a_MK);
    one.epilogue.activated_MN = part(all.epilogue.activated_MN);
    one.epilogue.activated_at_MN = part(all.epilogue.activated_at_MN);
    run.backend.put(Queue::compute, one);
  }
}

bool wants_any(const Run& run, std::span<const ParamId> params) {
  return std::ranges::any_of(params, [&](ParamId p) { return run.wants(p); });
}

}  // namespace trireme::ops
