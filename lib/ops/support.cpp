#include "lib/ops/support.hpp"

#include <algorithm>
#include <vector>

namespace trireme::ops {

View as_rows(const Tensor& x) {
  const auto& s = x.shape();
  const auto width = s[s.dims() - 1];
  return x.view().reshaped({s.count() / width, width});
}

bool wants_any(const Run& run, std::span<const ParamId> params) {
  return std::ranges::any_of(params, [&](ParamId p) { return run.wants(p); });
}

void add_gradients(const Run& run, std::span<const ParamId> params, std::int64_t rows,
                   const Gradients::Fill& fill) {
  if (wants_any(run, params)) {
    run.gradients->add(params, rows, fill);
  } else {
    const std::vector<View> absent(params.size());
    fill({0, rows}, absent, Accumulate::overwrite);
  }
}

}  // namespace trireme::ops
