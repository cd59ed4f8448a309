#include "lib/train/loop.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include "lib/base/log.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/train/evaluation.hpp"
#include "lib/train/schedule.hpp"
#include "lib/train/state.hpp"

namespace trireme {

using Clock = std::chrono::steady_clock;

static double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

TrainLoop::TrainLoop(Trainer& trainer, const Dataset& training, const Dataset* validation,
                     const RunDirectory& directory, LoopSettings settings, CheckpointMeta meta,
                     bool restored)
    : trainer_(trainer),
      training_(training),
      validation_(validation),
      directory_(directory),
      settings_(std::move(settings)),
      meta_(std::move(meta)),
      total_steps_(total_steps(settings_.train, training.sample_length())),
      step_tokens_(settings_.train.batch * training.sample_length()),
      first_step_(meta_.step),
      saved_step_(restored ? meta_.step : -1),
      history_(directory.history(), restored ? std::optional(meta_.step) : std::nullopt),
      progress_(total_steps_) {
  if (validation_)
    evaluations_.emplace(directory.evaluation(),
                         restored ? std::optional(meta_.step) : std::nullopt);
}

double TrainLoop::elapsed() const {
  return seconds_since(settings_.started);
}

Ending TrainLoop::run() {
  while (meta_.step < total_steps_) {
    one_step();
    const auto every = settings_.evaluate.every_steps;
    const bool last = meta_.step == total_steps_;
    if (validation_ && (last || (every > 0 && meta_.step % every == 0))) evaluate_now();
    const auto asked = signals_.take();
    reason_ = last ? "" : stop_reason(asked);
    if (last || !reason_.empty() || asked == Asked::checkpoint || save_is_due()) save_now();
    if (!reason_.empty()) return Ending::stopped;
  }
  return Ending::done;
}

bool TrainLoop::save_is_due() const {
  const auto& c = settings_.checkpoint;
  return (c.every_steps > 0 && meta_.step % c.every_steps == 0) ||
         (c.every_minutes > 0 && seconds_since(saved_at_) >= 60 * c.every_minutes);
}

std::string TrainLoop::stop_reason(Asked asked) const {
  if (asked == Asked::stop) return "a signal asked for it";
  // The next step and a checkpoint, each at one and a half times what it took so far.
  const double step = steps_seconds_ / static_cast<double>(meta_.step - first_step_);
  if (settings_.time_limit > 0 &&
      elapsed() + 1.5 * (step + save_seconds_) + 1 > settings_.time_limit)
    return "the time limit is near";
  return "";
}

void TrainLoop::one_step() {
  const auto begin = Clock::now();
  const auto& t = settings_.train;
  std::vector<Batch> microbatches;
  for (std::int64_t i = 0; i < t.batch; i += t.microbatch)
    microbatches.push_back(read_samples(training_, meta_.samples + i, t.microbatch));
  const double lr =
      learning_rate(settings_.schedule, settings_.optimizer.lr, meta_.step, total_steps_);
  const auto result = trainer_.step(meta_.step, lr, microbatches);

  const auto epoch = training_.epoch_of(meta_.samples);
  ++meta_.step;
  meta_.samples += t.batch;
  meta_.tokens += step_tokens_;
  if (training_.epoch_of(meta_.samples) != epoch)
    log_info("step {}: epoch {} begins", meta_.step, training_.epoch_of(meta_.samples) + 1);
  const double seconds = seconds_since(begin);
  steps_seconds_ += seconds;
  report(result, lr, seconds);
  judge(result);
}

void TrainLoop::judge(const StepResult& result) {
  if (result.verdict == Verdict::updated) {
    skipped_in_row_ = 0;
    return;
  }
  meta_.skipped.push_back(meta_.step);
  if (result.verdict == Verdict::no_targets) {
    log_warning("step {} is skipped: none of its targets is valid", meta_.step);
    return;
  }
  log_warning("step {} is skipped: {} is not finite", meta_.step,
              result.culprit == "the loss" ? result.culprit : "the gradient of " + result.culprit);
  ++skipped_in_row_;
  require(
      skipped_in_row_ < settings_.train.max_skipped,
      "{} steps in a row were not finite, the last at step {}: lower optimizer.lr, lengthen "
      "schedule.warmup_steps, or look at the data of these steps; train.max_skipped allows more",
      skipped_in_row_, meta_.step);
}

void TrainLoop::report(const StepResult& r, double lr, double seconds) {
  HistoryRow row;
  row.step = meta_.step;
  row.tokens = meta_.tokens;
  row.loss = r.loss;
  row.grad_norm = r.grad_norm;
  row.lr = lr;
  row.seconds = seconds;
  row.tokens_per_second = static_cast<double>(step_tokens_) / seconds;
  row.bytes_peak = static_cast<std::int64_t>(trainer_.backend().account().peak_all);
  history_.append(row);
  if (settings_.log_every > 0 && meta_.step % settings_.log_every == 0)
    log_detail("step {}/{} loss {:.4f} norm {:.3f} lr {:.3g} {:.0f} tokens/s", meta_.step,
               total_steps_, r.loss, r.grad_norm, lr, row.tokens_per_second);
  const double left = static_cast<double>(total_steps_ - meta_.step) * steps_seconds_ /
                      static_cast<double>(meta_.step - first_step_);
  progress_.show(meta_.step, r.loss, row.tokens_per_second, left);
}

void TrainLoop::evaluate_now() {
  const auto loss =
      evaluate(trainer_, *validation_, settings_.evaluate.batches * settings_.train.batch,
               settings_.train.microbatch);
  evaluations_->append({meta_.step, meta_.tokens, loss.mean(), std::exp(loss.mean())});
  log_info("step {}: held-out loss {:.4f}, perplexity {:.3f}", meta_.step, loss.mean(),
           std::exp(loss.mean()));
}

void TrainLoop::save_now() {
  if (saved_step_ == meta_.step) return;
  const auto begin = Clock::now();
  saved_at_ = begin;  // a save that fails is tried again when the next one is due
  try {
    const auto where = save_state(trainer_.store(), directory_.checkpoints(), meta_);
    saved_step_ = meta_.step;
    last_checkpoint_ = where.string();
    save_seconds_ = seconds_since(begin);
    log_info("step {}: checkpoint {} in {:.2f} s", meta_.step, where.string(), save_seconds_);
    if (settings_.checkpoint.keep_last > 0)
      prune(directory_.checkpoints(), static_cast<int>(settings_.checkpoint.keep_last),
            settings_.checkpoint.keep_every);
  } catch (const Error& e) {
    // The last chance to keep the run's work is never passed over.
    const bool last = meta_.step == total_steps_ || !reason_.empty();
    if (settings_.checkpoint.on_error == SaveFailure::stop || last) throw;
    log_error("step {}: no checkpoint: {}", meta_.step, e.what());
  }
}

}  // namespace trireme
