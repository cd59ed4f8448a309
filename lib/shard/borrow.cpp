#include "lib/shard/borrow.hpp"

#include <algorithm>

namespace trireme {

static void borrow_weights(std::vector<GatherStep>& steps, UnitId unit, int microbatch, bool once) {
  const auto it = once ? std::ranges::find(steps, unit, &GatherStep::unit) : steps.end();
  if (it != steps.end())
    ++it->uses;
  else if (!steps.empty() && steps.back().unit == unit)
    ++steps.back().uses;
  else
    steps.push_back({unit, microbatch, 1});
}

static void borrow_gradient(std::vector<GradientUse>& uses, const Borrow& b) {
  const auto it = std::ranges::find_if(
      uses, [&](const GradientUse& g) { return g.unit == b.unit && g.use == b.use; });
  if (it != uses.end())
    ++it->leases;
  else
    uses.push_back({b.unit, b.use, 1});
}

BorrowPlan make_borrow_plan(std::span<const Visit> visits, const ZeroPolicy& policy) {
  BorrowPlan plan;
  plan.keep_gathered = policy.gather_every == ZeroCadence::step;
  plan.reduce_at_last = policy.reduce_every == ZeroCadence::step;
  for (const Visit& v : visits)
    for (const Borrow& b : v.units) {
      if (v.weights) borrow_weights(plan.gathers, b.unit, v.microbatch, plan.keep_gathered);
      if (v.gradients) borrow_gradient(plan.gradients, b);
    }
  return plan;
}

}  // namespace trireme
