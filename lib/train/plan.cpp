#include "lib/train/plan.hpp"

#include <algorithm>

namespace trireme {

// As many tokens as a rank's share holds; what they are does not matter here.
static Batch any_batch(std::int64_t samples, std::int64_t tokens) {
  const auto n = static_cast<std::size_t>(samples * tokens);
  return {std::vector<std::int32_t>(n, 0), std::vector<std::int32_t>(n, 0),
          std::vector<std::int64_t>(static_cast<std::size_t>(samples), 0), samples * tokens};
}

RankPlan plan_rank(const PlanInput& in, const DryTarget& target, int rank) {
  Dry backend(target);
  const Workspace workspace(backend);
  const auto axes = pretend_axes(in.grid, shard_ranks(in.setup.zero, in.grid), rank);
  RankPlan plan;
  plan.rank = rank;
  plan.at = axes.at;
  {
    Trainer trainer(backend, axes, in.setup);
    const auto count = in.train.batch / (in.train.microbatch * in.grid.data);
    const std::vector<Batch> step(
        static_cast<std::size_t>(count),
        any_batch(in.train.microbatch, in.setup.model.context / in.grid.seq));
    trainer.step(in.setup.first_step, 1e-3, step);
    plan.step_flops = backend.flops();
    const auto before = axes.traffic();
    trainer.step(in.setup.first_step + 1, 1e-3, step);
    const auto after = axes.traffic();
    plan.step_traffic = {after.shard - before.shard, after.seq - before.seq,
                         after.pipe - before.pipe};
    if (in.evaluation == PlanEvaluation::included) trainer.evaluate(step[0]);
    plan.account = backend.account();
  }
  plan.races = backend.races();
  return plan;
}

// Ranks of one stage differ in the heads that they share out, if at all.
static bool heads_differ(const ModelConfig& c, const Grid& grid) {
  return c.heads % grid.seq != 0 || c.kv_heads % grid.seq != 0;
}

Plan make_plan(const PlanInput& in, const DryTarget& target) {
  Plan plan;
  const auto spec = make_spec(in.setup.model);
  plan.parameters = spec.parameter_count();
  plan.microbatches = in.train.batch / (in.train.microbatch * in.grid.data);
  plan.stage_blocks = blocks_of_stages(spec, in.setup.stage_layers, in.grid.pipe);
  const int shares = heads_differ(in.setup.model, in.grid) ? in.grid.seq : 1;
  for (int stage = 0; stage < in.grid.pipe; ++stage)
    for (int s = 0; s < shares; ++s)
      plan.ranks.push_back(plan_rank(in, target, in.grid.rank({stage, 0, s})));
  return plan;
}

std::size_t Plan::most_reserved() const {
  std::size_t most = 0;
  for (const auto& r : ranks) most = std::max(most, r.account.reserved);
  return most;
}

}  // namespace trireme
