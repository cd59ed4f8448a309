#include "lib/run/saving.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "lib/base/counted.hpp"
#include "lib/base/log.hpp"
#include "lib/base/seconds.hpp"
#include "lib/base/timesheet.hpp"
#include "lib/io/run_lock.hpp"

namespace trireme {

using Clock = std::chrono::steady_clock;

namespace {

// Error: another process has taken the run directory. Nothing is saved then, whatever the value of
// checkpoint.on_error.
struct LostRun : SharedError {
  using SharedError::SharedError;
};

}  // namespace

Saving::Saving(Trainer& trainer, RunRecord& record, CheckpointConfig config,
               EvaluationRanking ranking, std::filesystem::path run, const CheckpointMeta& start,
               std::string restored)
    : trainer_(trainer),
      world_(trainer.axes().world),
      record_(record),
      config_(config),
      ranking_(std::move(ranking)),
      run_(std::move(run)),
      saver_(trainer.store(), trainer.axes(), run_ / "checkpoints",
             [&record] { record.require_lock(); }),
      last_checkpoint_(std::move(restored)),
      saved_step_(last_checkpoint_.empty() ? -1 : start.step) {
  const bool copies = config_.memory_every > 0;
  if (config_.async || copies) together(world_, [&] { saver_.reserve(); });
  if (copies) {
    copies_.emplace(trainer.store(), trainer.axes(), run_, start.run);
    if (world_.rank() == 0) log_info("{}", copies_->description());
  }
  size_ = saver_.size();
}

// Warns if free space is short. Old checkpoints are removed only after the next one is published,
// so one additional checkpoint must fit.
void Saving::warn_of_space(std::int64_t decays) const {
  const double kept = static_cast<double>(std::max<std::int64_t>(1, config_.keep_last) +
                                          config_.keep_best + decays + 1);
  std::error_code unknown;
  const auto space = std::filesystem::space(run_, unknown);
  if (unknown || static_cast<double>(space.available) >= kept * size_.all) return;
  log_warning(
      "{} has {:.3g} GB of free space, but checkpoint.keep_last = {}{}{} needs space for {} {:.0f} "
      "checkpoints of {:.3g} GB at a time: saving may fail",
      run_.string(), static_cast<double>(space.available) * 1e-9, config_.keep_last,
      config_.keep_best == 0 ? "" : fmt::format(" with keep_best = {}", config_.keep_best),
      decays == 0 ? "" : " and " + counted(decays, "decay"),
      config_.keep_last == 0 ? "at least" : "up to", kept, size_.all * 1e-9);
}

bool Saving::is_due(std::int64_t step) const {
  return (config_.every_steps > 0 && step % config_.every_steps == 0) ||
         (config_.every_minutes > 0 && seconds_since(tried_) >= 60 * config_.every_minutes);
}

double Saving::estimate() const {
  const auto assumed = size_.largest / save_rate;
  const auto checkpoint = seconds_ > 0 ? seconds_ : assumed;
  // A checkpoint and a memory copy in progress are completed first.
  const auto first = busy() ? checkpoint : 0;
  const auto copy = copy_is_busy() ? (copy_seconds_ > 0 ? copy_seconds_ : assumed) : 0;
  return first + copy + checkpoint;
}

void Saving::log_no_checkpoint(const SharedError& e, std::int64_t step) const {
  if (world_.rank() == 0) log_error("step {}: the checkpoint was not saved: {}", step, e.what());
}

void Saving::failed(const SharedError& e, std::int64_t step, Last last) const {
  if (dynamic_cast<const StateFault*>(&e) || dynamic_cast<const LostRun*>(&e)) throw;
  if (!(last ? step == *last : config_.on_error == SaveFailure::stop))
    return log_no_checkpoint(e, step);
  throw SharedError(
      fmt::format("{} -- {}{}", e.what(),
                  config_.on_error == SaveFailure::stop
                      ? "set checkpoint.on_error = \"continue\" to train on without this checkpoint"
                      : "the last checkpoint of the run could not be saved",
                  last_checkpoint_.empty() ? "; the run has no checkpoint yet" : ""));
}

void Saving::complete(const std::filesystem::path& path) {
  last_checkpoint_ = path.string();
  saved_step_ = now_.step;
  seconds_ = saver_.seconds();
  log_info("step {}: checkpoint {} saved in {:.2f} s, training paused for {:.2f} s", now_.step,
           last_checkpoint_, std::max(seconds_, now_.waited), now_.waited);
  // Removing old checkpoints may be slow.
  at_root(world_, Pace::slow, [&] {
    record_.saved({"running", now_.step, "", last_checkpoint_}, config_, ranking_);
  });
}

// Throws LostRun if another process has taken the run directory, because training must not continue
// without checkpoints. If the lock cannot be read, throws SharedError, as for any disk failure.
void Saving::require_lock() const {
  std::string lost;
  at_root(world_, Pace::slow, [&] {
    try {
      record_.require_lock();
    } catch (const LostLock& e) {
      lost = e.what();
    }
  });
  world_.broadcast(lost);
  if (!lost.empty()) throw LostRun(lost);
}

void Saving::begin(CheckpointMeta& meta) {
  finish_copy();  // it uses the snapshot
  trainer_.check_memory();
  now_ = {meta.step, Clock::now(), 0};
  tried_ = now_.begin;  // after a failure, wait until the next checkpoint is due
  at_root(world_, Pace::slow, [&] { record_.put_into(meta); });
}

void Saving::advance(Last last) {
  if (waits_for_copy_) return finish_copy(last);
  const TaskScope task(Task::saving);
  const auto begin = Clock::now();
  try {
    const auto path = saver_.advance();
    now_.waited += seconds_since(begin);
    if (path) complete(*path);
  } catch (const SharedError& e) {
    failed(e, now_.step, last);
  }
}

void Saving::save_at_once(CheckpointMeta& meta, Last last) {
  const TaskScope task(Task::saving);
  while (busy()) advance(last);
  if (saved_step_ == meta.step) return;
  try {
    require_lock();
    begin(meta);
    const auto path = saver_.save(meta);
    now_.waited = seconds_since(now_.begin);
    complete(path);
  } catch (const SharedError& e) {
    failed(e, meta.step, last);
  }
}

void Saving::save_as_usual(CheckpointMeta& meta) {
  const TaskScope task(Task::saving);
  if (!config_.async) return save_at_once(meta, {});
  while (busy() && now_.step != meta.step) advance({});
  if (busy() || saved_step_ == meta.step) return;
  try {
    require_lock();
    begin(meta);
    from_copy_ = copies_ && begin_copy(meta).empty();
    waits_for_copy_ = from_copy_;
    if (!from_copy_) saver_.begin(meta);
    now_.waited = seconds_since(now_.begin);
  } catch (const SharedError& e) {
    failed(e, meta.step, {});
  }
}

// Starts to write the checkpoint whose memory copy has ended.
void Saving::write_from_copy(Last last) {
  try {
    auto state = copies_->copied();
    from_copy_ = state.in_memory;
    saver_.begin(std::move(state));
  } catch (const SharedError& e) {
    failed(e, now_.step, last);
  }
}

bool Saving::copy_is_due(std::int64_t step) const {
  return copies_ && step % config_.memory_every == 0;
}

// Logs the first of several failures in a row, and the success that ends them.
void Saving::log_copy(const std::string& failure, std::int64_t step) {
  if (world_.rank() == 0 && !failure.empty() && !copies_fail_)
    log_warning("step {}: no memory copy was made: {}{}", step, failure,
                copies_->newest() < 0
                    ? ""
                    : fmt::format(". The copy of step {} remains", copies_->newest()));
  if (world_.rank() == 0 && failure.empty() && copies_fail_)
    log_info("step {}: memory copies succeed again", step);
  copies_fail_ = !failure.empty();
}

void Saving::copy_to_memory(CheckpointMeta& meta) {
  if (!copies_) return;
  if (checkpoint_blocks_copies()) {
    if (world_.rank() == 0 && !copies_wait_)
      log_info(
          "step {}: no memory copy begins until the checkpoint of step {} is written, because the "
          "copy would overwrite its data",
          meta.step, now_.step);
    copies_wait_ = true;
    return;
  }
  if (copies_->busy()) {
    if (world_.rank() == 0 && !copies_are_late_)
      log_warning(
          "step {}: the memory copy of step {} is not complete yet, so copies are less frequent "
          "than checkpoint.memory_every = {}",
          meta.step, copied_step_, config_.memory_every);
    copies_are_late_ = true;
    return;
  }
  const TaskScope task(Task::saving);
  trainer_.check_memory();
  at_root(world_, Pace::slow, [&] { record_.put_rows_into(meta); });
  begin_copy(meta);
}

bool Saving::checkpoint_blocks_copies() const {
  return saver_.busy() && (!from_copy_ || copies_->overwrites() == now_.step);
}

// Returns an empty text, or the reason why no copy begins.
std::string Saving::begin_copy(CheckpointMeta& meta) {
  copied_step_ = meta.step;
  copy_begin_ = Clock::now();
  auto failure = copies_->begin(meta, saver_.snapshot());
  copies_waited_ += seconds_since(copy_begin_);
  if (!failure.empty()) log_copy(failure, copied_step_);
  return failure;
}

void Saving::finish_copy(Last last) {
  const bool checkpoint_waits = std::exchange(waits_for_copy_, false);
  if (!copy_is_busy()) return;
  const TaskScope task(Task::saving);
  const auto begin = Clock::now();
  const auto failure = copies_->finish();
  copies_waited_ += seconds_since(begin);
  copy_seconds_ = seconds_since(copy_begin_);
  if (failure.empty()) ++copies_made_;
  log_copy(failure, copied_step_);
  if (!checkpoint_waits) return;
  write_from_copy(last);
  now_.waited += seconds_since(begin);
}

void Saving::remove_copies() {
  if (!copies_) return;
  if (world_.rank() == 0 && copies_made_ > 0)
    log_info("{} made. Training paused for {:.3f} s per copy",
             copies_made_ == 1 ? "1 memory copy was"
                               : fmt::format("{} memory copies were", copies_made_),
             copies_waited_ / static_cast<double>(copies_made_));
  const TaskScope task(Task::saving);
  try {
    require_lock();  // another process may be reading them
    copies_->remove_all();
  } catch (const std::exception& e) {
    if (world_.rank() == 0) log_warning("memory copies were not removed: {}", e.what());
  }
}

void Saving::leave_copies() {
  if (!copies_) return;
  if (copies_->newest() <= saved_step_) return remove_copies();
  if (world_.rank() == 0)
    log_warning("the memory copy of step {} remains. `trireme rescue {}` makes a checkpoint of it",
                copies_->newest(), run_.string());
}

void Saving::finish() {
  const TaskScope task(Task::saving);
  try {
    while (busy()) advance({});
  } catch (const SharedError& e) {
    log_no_checkpoint(e, now_.step);
  }
}

}  // namespace trireme
