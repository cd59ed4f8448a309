#include "lib/ops/low_rank.hpp"

namespace trireme::ops {

Tensor dropped(const Run& run, const LowRank& low, const Tensor& x) {
  if (low.dropout.key(run.pass).p == 0) return x;
  return drop(run, low.dropout, x, {}, MemoryKind::transient);
}

void apply_scale(const Run& run, const LowRank& low, const View& x) {
  if (low.scale != 1) run.backend.put(Queue::compute, kernel::Scale{.x_N = x, .factor = low.scale});
}

}  // namespace trireme::ops
