#include "lib/predict/trial.hpp"

#include <algorithm>

#include "lib/plan/rank_kinds.hpp"
#include "lib/predict/recorder.hpp"

namespace trireme {

Trial simulate_choice(const PlanInput& in, const DryTarget& target, const MachineModel& machine,
                      const RunChoice& c, std::int64_t microbatches) {
  auto input = input_of(in, c);
  input.train.batch = microbatches * c.microbatch * c.grid.data;
  const Placement placement{static_cast<int>(machine.ranks_of_node)};
  Trial trial;
  trial.choice = c;
  std::vector<Recording> recordings;
  const RankKinds kinds(input);
  for (const int rank : kinds.ranks()) {
    Account account;
    recordings.push_back(record_step(input, target, placement, rank, &account));
    const auto axes = pretend_axes(input.grid, shard_ranks(input.setup.zero, input.grid), rank);
    trial.needed_by_kind.push_back(memory_of(account, target.properties) +
                                   outside_account(input, target.properties, axes).all());
    auto& sent = trial.sent_by_kind.emplace_back(0);
    for (const auto& t : recordings.back().transfers) sent += t.bytes_out();
  }
  const auto times = simulate(machine, recordings);
  trial.seconds = times.seconds;
  trial.lost = lost_in(times);
  return trial;
}

static double along(double few, double more, double steps) {
  return more + (more - few) * steps;
}

// Simulates two small numbers of micro-batches and extrapolates. A full pipeline repeats itself
// with each micro-batch, or with each group of micro-batches.
Trial try_choice(const PlanInput& in, const DryTarget& target, const MachineModel& machine,
                 const RunChoice& c) {
  const auto m = microbatches_of(in, c);
  const auto& traits = traits_of(c.schedule);
  // The first micro-batches of a step differ from the others even on short pipelines.
  const std::int64_t turn = c.grid.pipe * ((3 + c.grid.pipe) / c.grid.pipe);
  const std::int64_t few = traits.full * c.grid.pipe + (traits.groups ? 0 : 2), more = few + turn;
  if (m <= more + 2) return simulate_choice(in, target, machine, c, m);
  const auto a = simulate_choice(in, target, machine, c, few);
  auto b = simulate_choice(in, target, machine, c, more);
  const double steps = static_cast<double>(m - more) / static_cast<double>(more - few);
  b.seconds = along(a.seconds, b.seconds, steps);
  for (std::size_t k = 0; k < b.sent_by_kind.size(); ++k)
    b.sent_by_kind[k] = along(a.sent_by_kind[k], b.sent_by_kind[k], steps);
  const auto extend = [&](double Lost::*of) {
    b.lost.*of = std::max(0.0, along(a.lost.*of, b.lost.*of, steps));
  };
  extend(&Lost::bubble);
  extend(&Lost::starved);
  for (std::size_t i = 0; i < axis_count; ++i)
    b.lost.exposed[i] = std::max(0.0, along(a.lost.exposed[i], b.lost.exposed[i], steps));
  return b;
}

void plan_memory(Trial& t, const PlanInput& in, const DryTarget& target) {
  const auto input = input_of(in, t.choice);
  const auto kinds = RankKinds(input).ranks();
  auto without_order = target;  // order does not affect memory
  without_order.order = false;
  constexpr double near = 0.9, little = 64 << 20;
  const double least = near * static_cast<double>(t.needed()) - little;
  for (std::size_t k = 0; k < kinds.size(); ++k)
    if (auto& needed = t.needed_by_kind[k]; static_cast<double>(needed) >= least)
      needed = plan_rank(input, without_order, kinds[k]).needed();
}

}  // namespace trireme
