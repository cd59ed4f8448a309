#include "lib/run/loop.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <utility>
#include <vector>

#include "kernels/trace.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/log.hpp"
#include "lib/base/seconds.hpp"
#include "lib/base/timesheet.hpp"
#include "lib/run/run_length.hpp"
#include "lib/run/sample.hpp"
#include "lib/run/schedule.hpp"
#include "lib/run/step_inputs.hpp"
#include "lib/train/work.hpp"

namespace trireme {

using Clock = std::chrono::steady_clock;

bool evaluation_is_due(const EvaluateConfig& e, std::int64_t step, std::int64_t total_steps) {
  return step > 0 && (step == total_steps || is_multiple(step, e.every_steps));
}

// Returns the loss of a model that gives all tokens the same probability, or 0 if the loss is not a
// loss of tokens.
static double uniform_loss(const TrainConfig& t, const ModelConfig& model) {
  const auto& traits = traits_of(t.objective);
  const bool of_tokens = traits.samples == Documents::single && traits.fixed == FixedModel::none;
  return of_tokens ? std::log(static_cast<double>(model.vocab)) : 0;
}

TrainLoop::TrainLoop(LoopParts parts, LoopSettings settings, LoopStart start)
    : trainer_(parts.trainer),
      training_(parts.training),
      validation_(parts.validation),
      record_(parts.record),
      signals_(parts.signals),
      tokenizer_(parts.tokenizer),
      settings_(std::move(settings)),
      meta_(std::move(start.meta)),
      missing_evaluations_(std::move(start.missing_evaluations)),
      ramp_(ramp_after(meta_, settings_.train, training_.sample_length())),
      total_steps_(steps_of_run(settings_.train, training_.sample_length(), meta_)),
      first_step_(meta_.step),
      first_tokens_(meta_.tokens),
      line_{0, Clock::now(), 0},
      saving_(trainer_, record_, settings_.checkpoint, settings_.ranking, settings_.directory,
              meta_, std::move(start.restored)),
      skips_(std::move(start.skips)),
      rollbacks_(start.rollbacks),
      stalled_(uniform_loss(settings_.train, trainer_.model().spec().config)),
      trace_(trainer_.axes(), {settings_.run.trace_steps, settings_.run.trace_ranks},
             settings_.directory / "trace"),
      reading_([this](SampleRange range) {
        return read_step(trainer_, training_, settings_.train.microbatch, range);
      }) {
  if (trainer_.axes().world.rank() == 0) notice_.emplace(signals_, settings_.run.signal_grace);
  if (missing_evaluations_.empty()) announce_step();
  at_root(trainer_.axes().world, Pace::slow, [&] {
    record_.outcome({"running", meta_.step, "", last_checkpoint()});
    saving_.warn_of_space(
        decays_between(settings_.schedule, ramp_.point(meta_.step), ramp_.point(total_steps_)));
    if (start.has_rolled_back) return;
    for (const char* name : {"stop_now", "checkpoint_now"})
      if (std::error_code unknown; std::filesystem::remove(settings_.directory / name, unknown))
        log_info("removed {}, which was created before this start",
                 (settings_.directory / name).string());
  });
}

std::string TrainLoop::summary() const {
  const auto steps = meta_.step - first_step_;
  const auto seconds = seconds_since(settings_.part_started);
  const auto of = meta_.tokens - first_tokens_;
  return fmt::format(
      "{} in {}, {:.0f} tokens/s on average{}; metrics in {}, {}", counted(steps, "step"),
      clock_text(seconds), static_cast<double>(tokens_) / seconds,
      trained_ == of ? "" : fmt::format(", {} of {} tokens trained", trained_, of),
      (settings_.directory / "history.csv").string(),
      last_checkpoint().empty() ? "no checkpoint" : "last checkpoint " + last_checkpoint());
}

RunTiming TrainLoop::timing() const {
  return {trainer_.axes().grid,
          std::string(trainer_.backend().name()),
          first_step_,
          meta_.step,
          times_.tokens(),
          times_.steps_seconds(),
          flops_of_token(trainer_.model().spec(), trainer_.model().context()),
          settings_.peak_flops,
          gather_timing(trainer_.axes(), trainer_.backend().account())};
}

double TrainLoop::seconds_of_process() const {
  return seconds_since(settings_.process_started);
}

constexpr const char* signal_reason = "a signal asked for it";

TrainLoop::Decision TrainLoop::decide() {
  const auto signal = signals_.take(), file = asked_by_file();
  const double wait = next_step_seconds();
  std::array<double, 8> d{
      double(signal == RunRequest::stop),
      double(file == RunRequest::stop),
      double(signal == RunRequest::checkpoint || file == RunRequest::checkpoint),
      double(near_time_limit()),
      double((saving_.is_due(meta_.step) && !may_roll_back_soon()) || decay_has_ended()),
      double(saving_.writing()),
      double(wait + saving_.estimate() > settings_.run.signal_grace),
      double(row_error_ != nullptr)};
  trainer_.axes().world.all_reduce_max(d);
  if (d[7] > 0) at_root(trainer_.axes().world, [&] { std::rethrow_exception(row_error_); });
  const char* stop = d[0] > 0   ? signal_reason
                     : d[1] > 0 ? "the file stop_now asked for it"
                     : d[3] > 0 ? "the time limit is near"
                                : "";
  return {stop, d[2] > 0, d[4] > 0, d[5] > 0, d[6] > 0};
}

// Returns what a user requested by creating a file in the run directory. Only rank 0 looks, at most
// once a second, because a file system may be slow. The file is removed.
RunRequest TrainLoop::asked_by_file() {
  const auto now = Clock::now();
  if (trainer_.axes().world.rank() != 0 || now - looked_at_ < std::chrono::seconds(1))
    return RunRequest::nothing;
  looked_at_ = now;
  const auto found = [&](const char* name) {
    std::error_code unknown;
    return std::filesystem::remove(settings_.directory / name, unknown);
  };
  if (found("stop_now")) return RunRequest::stop;
  return found("checkpoint_now") ? RunRequest::checkpoint : RunRequest::nothing;
}

Saving::Last TrainLoop::last_step() const {
  return meta_.step == total_steps_ || !reason_.empty() ? Saving::Last(meta_.step) : std::nullopt;
}

bool TrainLoop::on_any_rank(bool here) const {
  double any = here;
  trainer_.axes().world.all_reduce_max({&any, 1});
  return any > 0;
}

Ending TrainLoop::run() {
  Timesheet::turn_to(Task::other);
  seconds_at_line_ = Timesheet::seconds();
  try {
    const auto ending = run_steps();
    saving_.remove_copies();
    trace_.close();
    return ending;
  } catch (const SharedError&) {
    saving_.finish();
    saving_.leave_copies();
    throw;
  }
}

Ending TrainLoop::run_steps() {
  if (!missing_evaluations_.empty() && !evaluate_and_go_on(missing_evaluations_))
    return Ending::stopped;
  if (end_if_patience_is_exhausted()) return Ending::done;
  while (meta_.step < total_steps_) {
    if (!one_step()) {
      reason_ = signal_reason;
      saving_.save_at_once(meta_, last_step());
      return Ending::stopped;
    }
    if (rollback_) {
      saving_.finish();
      return Ending::rolled_back;
    }
    const bool last = meta_.step == total_steps_;
    const auto decision = decide();
    droppable_ = decision.droppable;
    if (!last) reason_ = decision.stop;
    if (saving_.busy() && !decision.writing) saving_.advance(last_step());
    if (last_step())
      saving_.save_at_once(meta_, last_step());
    else if (decision.checkpoint || decision.save_due)
      saving_.save_as_usual(meta_);
    else if (saving_.copy_is_due(meta_.step) && !may_roll_back_soon())
      saving_.copy_to_memory(meta_);
    if (!reason_.empty()) return Ending::stopped;
    sample_now();
    if (!evaluation_is_due(meta_.step) && (!decay_has_ended() || validation_.empty())) continue;
    if (!evaluate_and_go_on(names_of_sets(validation_))) return Ending::stopped;
    if (end_if_patience_is_exhausted()) return Ending::done;
  }
  return Ending::done;
}

bool TrainLoop::evaluate_and_go_on(const std::vector<std::string>& sets) {
  const bool complete = evaluate_now(sets), last = meta_.step == total_steps_;
  if (complete && (last || !on_any_rank(signals_.stop()))) return true;
  reason_ = signal_reason;
  saving_.save_at_once(meta_, last_step());
  return false;
}

bool TrainLoop::evaluation_is_due(std::int64_t step) const {
  return !validation_.empty() && trireme::evaluation_is_due(settings_.evaluate, step, total_steps_);
}

bool TrainLoop::end_if_patience_is_exhausted() {
  const auto patience = settings_.evaluate.patience;
  if (patience == 0 || validation_.empty() || meta_.step == total_steps_) return false;
  const auto& set = settings_.ranking.set;
  const auto by = settings_.ranking.by;
  std::string reason;
  at_root(trainer_.axes().world, Pace::slow, [&] {
    const auto since = evaluations_since_best(record_.evaluations(set), by);
    if (since >= patience)
      reason = fmt::format("the {} {} has not improved for {} (evaluate.patience)",
                           label_of_set(set), name_of(by), counted(since, "evaluation"));
  });
  trainer_.axes().world.broadcast(reason);
  if (reason.empty()) return false;
  reason_ = reason;
  log_info("step {}: the run ends, because {}; to train on, raise evaluate.patience", meta_.step,
           reason_);
  saving_.save_at_once(meta_, last_step());
  return true;
}

// Returns the expected duration of the next step: its samples times the mean seconds per sample so
// far. Twice that if the step is computed twice.
double TrainLoop::next_step_seconds() const {
  return (is_multiple(meta_.step + 1, settings_.run.replay_every) ? 2 : 1) *
         times_.of_samples(next_batch());
}

bool TrainLoop::near_time_limit() const {
  if (settings_.run.time_limit <= 0) return false;
  // Estimate the time to the next opportunity to stop from this run, and multiply it by 1.5.
  double next = next_step_seconds() + saving_.estimate();
  const bool ends = decay_has_ended() ||
                    ends_decay(settings_.schedule, step_of_run(ramp_, meta_.step, total_steps_));
  if (ends || evaluation_is_due(meta_.step) || evaluation_is_due(meta_.step + 1))
    next += times_.evaluation;
  if (tokenizer_ && (sample_is_due(settings_.evaluate, meta_.step, total_steps_) ||
                     sample_is_due(settings_.evaluate, meta_.step + 1, total_steps_)))
    next += times_.sample;
  return seconds_of_process() + 1.5 * next + 1 > settings_.run.time_limit;
}

void TrainLoop::save_and_rethrow() {
  const auto error = std::current_exception();
  try {
    if (meta_.step > first_step_) saving_.save_at_once(meta_, last_step());
  } catch (const SharedError& e) {
    saving_.log_no_checkpoint(e, meta_.step);
  }
  std::rethrow_exception(error);
}

bool TrainLoop::is_too_long(Clock::time_point begin, int done, int of) const {
  const double left = seconds_since(begin) / done * (of - done);
  return signals_.stop() &&
         signals_.seconds_since_stop() + left + saving_.estimate() > settings_.run.signal_grace;
}

void TrainLoop::announce_step() {
  if (!notice_) return;
  const auto microbatches = next_batch() / (trainer_.axes().grid.data * settings_.train.microbatch);
  notice_->begin_step(meta_.step + 1, droppable_ && trainer_.can_drop(microbatches)
                                          ? Dropping::possible
                                          : Dropping::impossible);
}

std::vector<Batch> TrainLoop::microbatches_of_step() {
  const TraceScope span("read samples");
  const TaskScope task(Task::reading);
  std::vector<Batch> microbatches;
  try {
    const auto after = meta_.step + 1 < total_steps_ ? ramp_.batch(meta_.step + 1) : 0;
    together(trainer_.axes().world, [&] {
      microbatches = reading_.take({meta_.samples, next_batch()}, after);
    });
  } catch (const SharedError&) {
    save_and_rethrow();
  }
  return microbatches;
}

bool TrainLoop::one_step() {
  const auto begin = Clock::now();
  const auto sent_before = trainer_.axes().traffic().all();
  trace_.begin(meta_.step + 1);
  announce_step();
  auto microbatches = microbatches_of_step();
  const auto batch = next_batch();
  const auto place = step_of_run(ramp_, meta_.step, total_steps_);
  const double lr = learning_rate(settings_.schedule, settings_.optimizer.lr, place);
  const auto should_abandon = [&](int done, int of) { return is_too_long(begin, done, of); };
  const auto replay =
      is_multiple(meta_.step + 1, settings_.run.replay_every) ? Replay::yes : Replay::no;
  const auto limits = skips_.limits(meta_.step);
  StepResult result;
  try {
    if (skips_.lists(meta_.step + 1))
      result = trainer_.skip(meta_.step);
    else
      result = trainer_.step(meta_.step, lr, microbatches,
                             droppable_ ? ShouldAbandon(should_abandon) : ShouldAbandon(), replay,
                             limits);
  } catch (const CountOverflow&) {
    save_and_rethrow();
  }
  if (notice_) notice_->end_step();
  trace_.end(meta_.step + 1);
  if (result.outcome == StepOutcome::dropped) {
    log_info(
        "step {} is dropped: a signal asked to stop, and the step would not finish within "
        "run.signal_grace = {} s",
        meta_.step + 1, settings_.run.signal_grace);
    return false;
  }

  const auto before = meta_.samples;
  if (meta_.step > first_step_ && batch != ramp_.batch(meta_.step - 1))
    log_info("step {}: the batch grows from {} to {} samples", meta_.step + 1,
             ramp_.batch(meta_.step - 1), batch);
  count_step(meta_, batch, training_.sample_length());
  meta_.extra.ends_decay = ends_decay(settings_.schedule, place) ? 1 : 0;
  // A new epoch begins in the step that contains its first sample.
  const auto epoch = training_.epoch_of(meta_.samples - 1);
  if (const auto& phase = training_.phase_of(meta_.samples - 1);
      before > 0 && &training_.phase_of(before - 1) != &phase)
    log_info("step {}: the samples now come from {}", meta_.step, training_.text_of(phase));
  if (training_.has_common_epochs() && before > 0 && training_.epoch_of(before - 1) != epoch)
    log_info("step {}: epoch {} begins", meta_.step, epoch + 1);
  // Before the step is in the tables, so that a failure between the two costs no further step.
  if (saving_.copy_is_busy() && !on_any_rank(saving_.copying())) saving_.finish_copy();
  const double seconds = seconds_since(begin);
  tokens_ += result.tokens;
  if (result.outcome == StepOutcome::updated) {
    trained_ += result.valid;
    if (meta_.extra.trained_tokens) *meta_.extra.trained_tokens += result.valid;
  }
  line_.tokens += result.tokens;
  if (is_measured(result.outcome)) times_.add_step(seconds, batch, result.tokens);
  if (result.outcome == StepOutcome::updated) skips_.add(result.loss, result.grad_norm);
  meta_.extra.usual_steps = skips_.state();
  report(result, lr, seconds, trainer_.axes().traffic().all() - sent_before);
  // Report before the calls that may end the run for another reason. Count a skipped step before
  // judge_fault() saves a checkpoint, so that the checkpoint lists the step.
  if (!result.fault.empty()) log_warning("step {} was {}", meta_.step, result.fault);
  count_skipped(result, {before, batch});
  judge_fault(result.fault);
  return true;
}

}  // namespace trireme
