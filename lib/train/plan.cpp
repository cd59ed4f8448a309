#include "lib/train/plan.hpp"

#include <algorithm>
#include <map>

#include "kernels/trace.hpp"
#include "lib/comm/transport/pretended_transport.hpp"
#include "lib/ops/heads.hpp"

namespace trireme {

// As many tokens as a rank's share holds; what they are does not matter here.
static Batch any_batch(std::int64_t samples, std::int64_t tokens) {
  const auto n = static_cast<std::size_t>(samples * tokens);
  return {std::vector<std::int32_t>(n, 0), std::vector<std::int32_t>(n, 0),
          std::vector<std::int64_t>(static_cast<std::size_t>(samples), 0), samples * tokens};
}

// FLOPs of one microbatch, from a trace whose clock they are.
static StageCost cost_of(std::span<const TraceSpan> spans, std::int64_t microbatches) {
  StageCost c{0, 0};
  for (const auto& s : spans) {
    const auto flops = static_cast<double>(s.end - s.begin) / static_cast<double>(microbatches);
    if (s.name == forward_span) c.forward += flops;
    if (s.name == backward_span) c.backward += flops;
  }
  return c;
}

RankPlan plan_rank(const PlanInput& in, const DryTarget& target, int rank) {
  Dry backend(target);
  const Workspace workspace(backend);
  const auto axes = pretend_axes(in.grid, shard_ranks(in.setup.zero, in.grid), rank, in.comm);
  if (in.wires == Wires::device) connect(axes, transport::pretended_device);
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
    Trace::start([&] { return static_cast<std::int64_t>(backend.flops()); });
    trainer.step(in.setup.first_step + 1, 1e-3, step);
    plan.microbatch_flops = cost_of(Trace::stop(), count);
    plan.first_trainable_stage = trainer.first_trainable_stage();
    const auto after = axes.traffic();
    plan.step_traffic = {after.shard - before.shard, after.seq - before.seq,
                         after.pipe - before.pipe};
    if (in.evaluation == PlanEvaluation::included) trainer.evaluate(step[0]);
    plan.account = backend.account();
  }
  plan.races = backend.races();
  return plan;
}

// Of the ranks of a stage the one with most heads counts. A stage that does nothing in a direction
// still needs a cost.
static Timeline timeline_of(const Plan& plan, int stages) {
  std::vector<StageCost> costs(static_cast<std::size_t>(stages), {1, 1});
  std::vector<Program> programs;
  for (const auto& r : plan.ranks) {
    auto& c = costs[static_cast<std::size_t>(r.at.pipe)];
    c.forward = std::max(c.forward, r.microbatch_flops.forward);
    c.backward = std::max(c.backward, r.microbatch_flops.backward);
  }
  for (int s = 0; s < stages; ++s)
    programs.push_back(one_f_one_b(stages, static_cast<int>(plan.microbatches), s,
                                   plan.ranks[0].first_trainable_stage));
  return make_timeline(programs, costs);
}

// Ranks of seq whose shares of the heads are not alike, if any are.
static std::vector<int> kinds_of_shares(const ModelConfig& c, int seq) {
  const ops::Heads heads{c.heads, c.kv_heads, c.head_dim()};
  std::map<std::vector<std::int64_t>, int> first_of;  // by what attention does
  for (int s = seq; s-- > 0;) {
    std::vector<std::int64_t> kind;
    for (const auto& g : head_groups(heads, head_share(heads, s, seq)))
      kind.insert(kind.end(), {g.query.begin, g.query.count, g.kv.begin, g.kv.count});
    first_of[kind] = s;
  }
  std::vector<int> ranks;
  for (const auto& [kind, s] : first_of) ranks.push_back(s);
  std::ranges::sort(ranks);
  return ranks;
}

// Ranks of which no two are alike: one of every stage and share of heads.
static std::vector<int> kinds_of_ranks(const PlanInput& in) {
  std::vector<int> ranks;
  const auto shares = kinds_of_shares(in.setup.model, in.grid.seq);
  for (int stage = 0; stage < in.grid.pipe; ++stage)
    for (const int s : shares) ranks.push_back(in.grid.rank({stage, 0, s}));
  return ranks;
}

// Of stages that are alike the first holds most, as it has most microbatches under way. Rules that
// freeze make no two alike.
static bool may_hold_most(const PlanInput& in, std::span<const std::int64_t> blocks, int stage) {
  if (!in.setup.freeze.empty() || stage <= 1 || stage == in.grid.pipe - 1) return true;
  const auto before = blocks.subspan(1, static_cast<std::size_t>(stage) - 1);
  return std::ranges::find(before, blocks[static_cast<std::size_t>(stage)]) == before.end();
}

std::size_t reserved_by(PlanInput in, DryTarget target, int rank) {
  target.order = false;
  // As many as a pipeline holds at once, and some that follow.
  const std::int64_t some = 2 * in.grid.pipe + 2;
  in.train.batch = std::min(in.train.batch, some * in.train.microbatch * in.grid.data);
  return plan_rank(in, target, rank).account.reserved;
}

std::optional<std::size_t> reserved_within(const PlanInput& in, const DryTarget& target,
                                           std::size_t limit) {
  std::size_t most = 0;
  const auto blocks =
      blocks_of_stages(make_spec(in.setup.model), in.setup.stage_layers, in.grid.pipe);
  for (const int rank : kinds_of_ranks(in)) {
    if (!may_hold_most(in, blocks, in.grid.at(rank).pipe)) continue;
    most = std::max(most, reserved_by(in, target, rank));
    if (most > limit) return std::nullopt;
  }
  return most;
}

Plan make_plan(const PlanInput& in, const DryTarget& target) {
  Plan plan;
  const auto spec = make_spec(in.setup.model);
  plan.parameters = spec.parameter_count();
  plan.microbatches = in.train.batch / (in.train.microbatch * in.grid.data);
  plan.stage_blocks = blocks_of_stages(spec, in.setup.stage_layers, in.grid.pipe);
  for (const int rank : kinds_of_ranks(in)) plan.ranks.push_back(plan_rank(in, target, rank));
  plan.timeline = timeline_of(plan, in.grid.pipe);
  return plan;
}

std::size_t Plan::most_reserved() const {
  std::size_t most = 0;
  for (const auto& r : ranks) most = std::max(most, r.account.reserved);
  return most;
}

}  // namespace trireme
