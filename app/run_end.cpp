#include "app/run_end.hpp"

#include <algorithm>
#include <exception>
#include <string_view>

#include "app/launch.hpp"
#include "app/run_support.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/error_text.hpp"
#include "lib/base/log.hpp"
#include "lib/base/sizes.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/run_lock.hpp"
#include "lib/launch/batch_job.hpp"
#include "lib/launch/mpi_job.hpp"

namespace trireme {

constexpr const char* done_reason = "all steps are done";

// Returns the recoveries of the run, or none if they cannot be read.
static RecoveryTotals recoveries_of(const LockedRun& run) {
  try {
    return totals_of(read_recoveries(run.path));
  } catch (const Error& e) {
    log_warning("the recoveries of the run are not in timing.json: {}", e.what());
    return {};
  }
}

// Writes the timing table to the log and to timing.json.
static void report_timing(const Communicator& world, RunTiming t, const LockedRun& run) {
  if (world.rank() != 0) return;
  t.recoveries = recoveries_of(run);
  for (const auto& line : timing_lines(t)) log_info("{}", line);
  try {
    require_lock(run.path, run.lock_text);
    add_timing(run.path / "timing.json", t);
  } catch (const Error& e) {
    log_warning("timing.json was not written: {}", e.what());
  }
}

// Records an error that only this rank has. This rank is about to abort the job, so rank 0 cannot
// record the error later.
static void record_local_failure(const LockedRun& run, const Communicator& world,
                                 const TrainLoop& loop, const std::exception& e,
                                 const JobStart& start) {
  try {
    // If there are several ranks, rank 0's record contains the roll call and is kept.
    const auto there = read_outcome(run.path);
    if (world.rank() > 0 && there && there->status == "failed") return;
    write_outcome(run.path, run.lock_text,
                  {"failed", loop.step(), fmt::format("rank {}: {}", world.rank(), error_text(e)),
                   loop.last_checkpoint(), there ? there->machine : "", start});
  } catch (const Error&) {  // another rank may write it, or another process may hold the lock
  }
}

// Returns the error with a hint on how to resume. Returns it unchanged if the lock was lost,
// because the run then belongs to another process.
static SharedError with_restart_hint(const SharedError& e, const TrainLoop& loop,
                                     const RunRecord& record) {
  try {
    record.require_lock();
  } catch (const LostLock&) {
    return e;
  } catch (const Error&) {  // the lock cannot be read
  }
  const auto& last = loop.last_checkpoint();
  return SharedError(
      last.empty()
          ? e.what()
          : fmt::format("{}. Once the cause is corrected, --restart latest resumes from {}",
                        e.what(), last));
}

// Logs the reserved memory, to compare with the prediction of `trireme plan`.
static void log_memory(const Communicator& world, const Backend& backend) {
  const auto reserved =
      world.all_gather(fmt::format("{}", memory_of(backend.account(), backend.properties())));
  std::size_t most = 0;
  for (const auto& bytes : reserved) most = std::max<std::size_t>(most, std::stoull(bytes));
  log_detail("memory reserved: at most {} on a rank (bytes by rank: {})",
             memory_text(static_cast<double>(most)), fmt::join(reserved, " "));
}

static void log_resources(const Deck& deck, const Machine& m, std::int64_t steps) {
  log_memory(m.axes.world, *m.backend);
  if (deck.freeze.empty()) return;
  log_detail(
      "applying the [[freeze]] rules took {:.2g} s per step",
      m.trainer->detection_seconds() / static_cast<double>(std::max<std::int64_t>(1, steps)));
}

int train_in(const LockedRun& run, const Deck& deck, const Machine& machine, TrainLoop& loop,
             RunRecord& record, const TrainArguments& a) {
  const auto outcome = [&](const char* status, const std::string& reason) {
    at_root(machine.axes.world, Pace::slow, [&] {
      record.outcome({status, loop.step(), reason, loop.last_checkpoint()});
    });
  };
  Ending ending{};
  try {
    ending = loop.run();
  } catch (const SharedError& e) {
    const auto error = with_restart_hint(e, loop, record);
    try {
      outcome("failed", error.what());
    } catch (const Error& second) {
      if (machine.axes.world.rank() == 0 && std::string_view(second.what()) != e.what())
        log_error("{}", second.what());
    }
    throw error;
  } catch (const std::exception& e) {
    // Reports the error at once, because another rank that fails may abort the job meanwhile.
    report_local_error(machine.axes.world, e);
    record_local_failure(run, machine.axes.world, loop, e, start_of(a));
    throw ReportedError(error_text(e));
  }
  const auto last_outcome = [&](const char* status, const std::string& reason) {
    try {
      outcome(status, reason);
    } catch (const SharedError& e) {
      throw with_restart_hint(e, loop, record);
    }
  };
  if (ending == Ending::rolled_back) {
    report_timing(machine.axes.world, loop.timing(), run);
    return 0;
  }
  log_resources(deck, machine, loop.step());
  report_timing(machine.axes.world, loop.timing(), run);
  log_info("{}", loop.summary());
  if (ending == Ending::done) {
    last_outcome("done", loop.reason().empty() ? done_reason : loop.reason());
    log_info("done: {}", counted(loop.step(), "step"));
    return 0;
  }
  last_outcome("stopped", loop.reason());
  std::string overrides;
  for (const auto& o : a.deck.overrides) overrides += " '" + o + "'";
  log_info(
      "stopped after step {}: {}. To resume: {}{}trireme train {}{} --run-dir {} --restart latest",
      loop.step(), loop.reason(), launch::job_id().empty() ? "" : "submit the job again, or ",
      launch::launcher_of(machine.axes.world.size()), a.deck.path, overrides, run.path.string());
  return exit_stopped_early;
}

// Ends a command that finds all steps and evaluations done, and returns the exit code. The last
// process may have ended before it wrote its outcome. If `directory` is null, the checkpoint
// belongs to another run, and nothing is written.
int end_finished(const RunDirectory* directory, const Inputs& in, const std::filesystem::path& run,
                 const JobStart& start) {
  const auto* const longer =
      in.deck.train.steps > 0 ? "train.steps" : "train.tokens or train.epochs";
  log_info("the run is finished: {} done; to train longer, raise {}",
           in.meta.step == 1 ? "its only step is" : fmt::format("all {} steps are", in.meta.step),
           longer);
  if (!directory) {
    log_warning(
        "nothing was written to {}: raise {}, or start a run from these weights with "
        "model.init_from=\"{}\" and without --restart",
        run.string(), longer, in.from->directory().string());
    return 0;
  }
  const auto outcome = directory->read_outcome();
  if (!outcome || outcome->status != "done")
    directory->write_outcome({"done", in.meta.step, done_reason, in.from->directory().string(),
                              outcome ? outcome->machine : "", start});
  return 0;
}

}  // namespace trireme
