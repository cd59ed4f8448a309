#include "lib/predict/trial.hpp"

#include <algorithm>

#include "lib/predict/recorder.hpp"

namespace trireme {
namespace {

// A choice's step with that many microbatches.
Trial simulate_choice(const PlanInput& in, const DryTarget& target, const MachineModel& machine,
                      const RunChoice& c, std::int64_t microbatches) {
  auto input = input_of(in, c);
  input.train.batch = microbatches * c.microbatch * c.grid.data;
  const auto kinds = kinds_of_ranks(input);
  const Placement placement{static_cast<int>(machine.ranks_of_node)};
  Trial trial;
  trial.choice = c;
  std::vector<Recording> recordings;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    Account account;
    recordings.push_back(record_step(input, target, placement, kinds, k, &account));
    const auto axes = pretend_axes(input.grid, shard_ranks(input.setup.zero, input.grid), kinds[k]);
    trial.needed = std::max(trial.needed, memory_of(account, target.properties) +
                                              beside_account(input, target.properties, axes).all());
    double sent = 0;
    for (const auto& t : recordings.back().transfers) sent += t.bytes_out();
    trial.sent = std::max(trial.sent, sent);
  }
  const auto times = simulate(machine, recordings);
  trial.seconds = times.seconds;
  trial.lost = lost_in(times);
  return trial;
}

double along(double few, double more, double steps) {
  return more + (more - few) * steps;
}

}  // namespace

// A pipeline that is full repeats itself with each microbatch, with chunks with each group of them.
Trial try_choice(const PlanInput& in, const DryTarget& target, const MachineModel& machine,
                 const RunChoice& c) {
  const auto m = in.train.batch / (c.microbatch * c.grid.data);
  const bool groups = c.schedule == ScheduleKind::interleaved;
  const std::int64_t few = groups ? 2 * c.grid.pipe : c.grid.pipe + 2, more = few + c.grid.pipe;
  if (m <= more + 2) return simulate_choice(in, target, machine, c, m);
  const auto a = simulate_choice(in, target, machine, c, few);
  auto b = simulate_choice(in, target, machine, c, more);
  const double steps = static_cast<double>(m - more) / static_cast<double>(more - few);
  b.seconds = along(a.seconds, b.seconds, steps);
  b.sent = along(a.sent, b.sent, steps);
  const auto extend = [&](double Lost::*of) {
    b.lost.*of = std::max(0.0, along(a.lost.*of, b.lost.*of, steps));
  };
  extend(&Lost::bubble);
  extend(&Lost::starved);
  for (std::size_t i = 0; i < axis_count; ++i)
    b.lost.exposed[i] = std::max(0.0, along(a.lost.exposed[i], b.lost.exposed[i], steps));
  return b;
}

}  // namespace trireme
