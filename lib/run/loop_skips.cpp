// What a run does after a step that was skipped or computed incorrectly.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "lib/base/counted.hpp"
#include "lib/base/log.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/run/loop.hpp"

namespace trireme {

// Saves a checkpoint and ends the run after a fault. The step itself is correct, because two of
// three computations agreed.
void TrainLoop::judge_fault(const std::string& fault) {
  if (fault.empty() || settings_.run.on_fault == OnFault::proceed) return;
  saving_.save_at_once(meta_, last_step());
  throw SharedError(
      fmt::format("step {} was {}: the hardware computes incorrectly. Exclude that node, or set "
                  "run.on_fault = \"continue\"",
                  meta_.step, fault));
}

// Why a step was skipped: the name in skipped.csv, and a text.
struct SkipReason {
  std::string_view name;
  std::string text;
};

static SkipReason reason_of(const StepResult& result) {
  switch (result.outcome) {
    case StepOutcome::no_targets:
      return {"no_targets", "all of its targets are masked"};
    case StepOutcome::above_limit:
      return {"above_limit", result.culprit + " (train.skip_above)"};
    case StepOutcome::listed:
      return {"skip_steps", "train.skip_steps contains it"};
    default:
      return {"not_finite", result.culprit + " is not finite"};
  }
}

void TrainLoop::count_skipped(const StepResult& result, SampleRange samples) {
  // The checkpoint stores this count, so that a run that is requeued repeatedly still stops.
  auto& in_row = meta_.extra.skipped_in_row;
  if (result.outcome == StepOutcome::updated) {
    in_row = 0;
    return;
  }
  meta_.skipped.push_back(meta_.step);
  const auto [name, why] = reason_of(result);
  log_warning("step {} is skipped: {}", meta_.step, why);
  const auto none = std::nan("");
  const bool measured = is_measured(result.outcome);
  at_root(trainer_.axes().world, [&] {
    record_.add(SkippedRow{meta_.step, std::string(name), measured ? result.loss : none,
                           measured ? result.grad_norm : none, samples.first, samples.count});
  });
  if (result.outcome == StepOutcome::listed) return;  // as the deck says
  ++in_row;
  if (decide_rollback() || in_row < settings_.train.max_skipped) return;
  if (result.outcome == StepOutcome::above_limit)
    throw SharedError(fmt::format(
        "{} steps in a row were skipped, the last at step {} because {}: check the data of these "
        "steps. If the loss grew before them, lower optimizer.lr. If the loss or the norm has "
        "changed for good, restart with a higher train.skip_above, or without it",
        in_row, meta_.step, why));
  const bool finite = result.outcome != StepOutcome::not_finite;
  throw SharedError(fmt::format(
      "{} steps in a row were skipped, the last at step {} because {}: {}check the data of these "
      "steps, or raise train.max_skipped",
      in_row, meta_.step, why, finite ? "" : "lower optimizer.lr, raise schedule.warmup_steps, "));
}

bool TrainLoop::decide_rollback() {
  const auto& t = settings_.train;
  if (t.rollback == 0 || meta_.extra.skipped_in_row < t.rollback) return false;
  if (rollbacks_ >= t.max_rollbacks) {
    if (meta_.extra.skipped_in_row == t.rollback)
      log_warning("the run does not roll back again: it has done so {} (train.max_rollbacks)",
                  counted(rollbacks_, "time"));
    return false;
  }
  auto last_good = meta_.step;
  while (std::ranges::binary_search(meta_.skipped, last_good)) --last_good;
  // The run may have to roll back to the checkpoint in progress.
  saving_.finish();
  double found = 0;
  at_root(trainer_.axes().world, Pace::slow, [&] {
    for (const auto& info : intact_checkpoints(settings_.directory / "checkpoints"))
      found += info.step <= last_good && is_multiple(info.step, settings_.checkpoint.every_steps);
  });
  trainer_.axes().world.all_reduce_max({&found, 1});
  if (found == 0) {
    if (meta_.extra.skipped_in_row > t.rollback) return false;  // said before
    log_warning(
        "the run cannot roll back (train.rollback): no intact checkpoint at a multiple of "
        "checkpoint.every_steps exists up to step {}",
        last_good);
    return false;
  }
  rollback_ = {last_good, meta_.step, meta_.samples, meta_.extra.data_phases};
  return true;
}

}  // namespace trireme
