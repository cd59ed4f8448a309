#include "app/fitting_grids.hpp"

#include <numeric>

#include "lib/base/sizes.hpp"
#include "lib/data/deck_data.hpp"
#include "lib/deck/teacher.hpp"

namespace trireme {

Deck PlannedRun::resolved(Deck d) const {
  const auto vocab = planned_vocabulary(d);
  return resolve(std::move(d), {ranks, ranks_of_node, vocab});
}

PlanInput PlannedRun::input(const Deck& d, TransportKind transport) const {
  auto input =
      plan_input_of(d, d.precision.compute, transport, teacher_of(d), document_weights(d.data));
  input.ranks_of_node = static_cast<int>(ranks_of_node);
  return input;
}

namespace {

constexpr std::size_t most_named = 8;

// Returns overrides of [zero], from the requested settings to those that need the least memory.
// Weights that are gathered once per step need more memory than weights that are gathered for each
// micro-batch.
std::vector<std::vector<std::string>> zero_settings(const ZeroConfig& asked, std::int64_t ranks) {
  std::vector<std::vector<std::string>> all = {{}};
  if (ranks == 1) return all;
  for (auto stage = asked.stage + 1; stage < 3; ++stage)
    all.push_back({fmt::format("zero.stage={}", stage)});
  const bool gathered_often = asked.stage == 3 && asked.gather == ZeroCadence::microbatch;
  const bool reduced_often = asked.stage == 3 && asked.reduce == ZeroCadence::microbatch;
  if (asked.stage < 3) all.push_back({"zero.stage=3", "zero.gather=step", "zero.reduce=step"});
  if (!gathered_often && !reduced_often)
    all.push_back({"zero.stage=3", "zero.gather=microbatch", "zero.reduce=step"});
  if (!gathered_often || !reduced_often)
    all.push_back({"zero.stage=3", "zero.gather=microbatch", "zero.reduce=microbatch"});
  return all;
}

PlanInput plan_input_on(const PlannedRun& run, const FittingGrid& grid, TransportKind transport) {
  auto overrides = run.deck.overrides;
  overrides.insert(overrides.end(), grid.overrides.begin(), grid.overrides.end());
  return run.input(run.resolved(load_deck(run.deck.path, overrides)), transport);
}

}  // namespace

std::vector<FittingGrid> grids_that_fit(const PlannedRun& run, const PlanInput& asked,
                                        const DryTarget& target, std::size_t limit) {
  auto grids = legal_grids({}, run.ranks);
  nearest_first(grids, asked.grid);
  // The requested expert parallelism is kept as far as it divides the grid's places.
  for (auto& g : grids) g.expert = std::gcd(g.places(), asked.grid.expert);
  std::vector<FittingGrid> fitting;
  for (const auto& g : grids) {
    for (const auto& zero : zero_settings(asked.setup.zero, run.ranks)) {
      if (g == asked.grid && zero.empty()) continue;
      FittingGrid fit{
          {fmt::format("parallel.pipe={}", g.pipe), fmt::format("parallel.data={}", g.data),
           fmt::format("parallel.seq={}", g.seq)},
          0};
      if (asked.setup.model.experts > 0)
        fit.overrides.push_back(fmt::format("parallel.expert={}", g.expert));
      if (!asked.setup.stage_layers.empty())
        fit.overrides.emplace_back("parallel.stage_layers=auto");
      if (g.pipe == 1 && asked.setup.schedule != ScheduleKind::one_f_one_b)
        for (const auto* undo : {"parallel.schedule=1f1b", "parallel.chunks=1"})
          fit.overrides.emplace_back(undo);
      if (g.expert == 1 && asked.setup.expert_tokens > 0)
        fit.overrides.emplace_back("parallel.expert_tokens=auto");
      fit.overrides.insert(fit.overrides.end(), zero.begin(), zero.end());
      try {
        const auto needed = needed_within(plan_input_on(run, fit, asked.transport), target, limit);
        if (!needed) continue;
        fit.needed = *needed;
      } catch (const Error&) {
        break;  // the model or the batch does not divide over this grid
      }
      fitting.push_back(std::move(fit));
      break;
    }
    if (fitting.size() == most_named) break;
  }
  return fitting;
}

std::string fitting_text(const PlannedRun& run, const PlanInput& asked, DryTarget target,
                         const std::vector<FittingGrid>& fitting) {
  target.order = false;
  std::size_t widest = 0;
  for (const auto& f : fitting)
    widest = std::max(widest, fmt::format("{}", fmt::join(f.overrides, " ")).size());
  std::string text = fmt::format("\n  {:<{}} {:>10} {:>7} {:>13}", "", widest, "needed", "bubble",
                                 "sent per step");
  for (const auto& f : fitting) {
    const auto plan = make_plan(plan_input_on(run, f, asked.transport), target);
    double sent = 0;
    for (const auto& r : plan.ranks)
      sent = std::max(sent, static_cast<double>(r.step_traffic.all()));
    text += fmt::format("\n  {:<{}} {:>10} {:>6.1f}% {:>13}",
                        fmt::format("{}", fmt::join(f.overrides, " ")), widest,
                        memory_text(static_cast<double>(f.needed)), 100 * bubble(plan.timeline),
                        traffic_text(sent));
  }
  return text;
}

}  // namespace trireme
