#include "lib/ops/support.hpp"

#include <algorithm>

namespace trireme::ops {

View as_rows(const Tensor& x) {
  const auto& s = x.shape();
  const auto width = s[s.dims() - 1];
  return x.view().reshaped({s.count() / width, width});
}

bool wants_any(const Run& run, std::span<const ParamId> params) {
  return std::ranges::any_of(params, [&](ParamId p) { return run.wants(p); });
}

}  // namespace trireme::ops
