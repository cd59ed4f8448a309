#include "lib/shard/borrow.hpp"

#include <algorithm>

namespace trireme {

// Returns the index of the gather that this borrow reads. Adds a gather if no earlier one can be
// shared.
static std::size_t gather_for(std::vector<GatherStep>& steps, UnitId unit, int microbatch,
                              bool once) {
  const auto from = once || steps.empty() ? steps.begin() : steps.end() - 1;
  const auto it = std::ranges::find(from, steps.end(), unit, &GatherStep::unit);
  const auto at = static_cast<std::size_t>(it - steps.begin());
  if (it == steps.end()) steps.push_back({unit, microbatch, 0, once});
  ++steps[at].uses;
  return at;
}

static void borrow_gradient(std::vector<GradientUse>& uses, const Borrow& b) {
  const auto it = std::ranges::find_if(
      uses, [&](const GradientUse& g) { return g.unit == b.unit && g.use == b.use; });
  if (it != uses.end())
    ++it->borrows;
  else
    uses.push_back({b.unit, b.use, 1});
}

BorrowPlan make_borrow_plan(std::span<const Visit> visits, const ZeroPolicy& policy) {
  BorrowPlan plan;
  const bool once = policy.gather_every == ZeroCadence::step;
  plan.reduce_at_last = policy.reduce_every == ZeroCadence::step;
  for (const Visit& v : visits)
    for (const Borrow& b : v.units) {
      if (v.weights) plan.reads.push_back(gather_for(plan.gathers, b.unit, v.microbatch, once));
      if (v.gradients) borrow_gradient(plan.gradients, b);
    }
  return plan;
}

}  // namespace trireme
