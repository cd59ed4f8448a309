#include "app/run_end.hpp"

#include "lib/base/error_text.hpp"
#include "lib/base/log.hpp"
#include "lib/io/run_lock.hpp"

namespace trireme {

void report_timing(const Communicator& world, const RunTiming& t, const LockedRun& run) {
  if (world.rank() != 0) return;
  for (const auto& line : timing_lines(t)) log_info("{}", line);
  try {
    require_lock(run.path, run.lock_text);
    add_timing(run.path / "timing.json", t);
  } catch (const Error& e) {
    log_warning("timing.json is not written: {}", e.what());
  }
}

void record_local_failure(const LockedRun& run, const Communicator& world, const TrainLoop& loop,
                          const std::exception& e, const JobStart& start) {
  try {
    // Of several ranks rank 0 has the roll call.
    const auto there = read_outcome(run.path);
    if (world.rank() > 0 && there && there->status == "failed") return;
    write_outcome(run.path, run.lock_text,
                  {"failed", loop.step(), fmt::format("rank {}: {}", world.rank(), error_text(e)),
                   loop.last_checkpoint(), there ? there->machine : "", start});
  } catch (const Error&) {  // another rank may do the same, another process have the directory
  }
}

SharedError with_restart_hint(const SharedError& e, const TrainLoop& loop,
                              const RunRecord& record) {
  try {
    record.require_lock();
  } catch (const LostLock&) {
    return e;
  } catch (const Error&) {  // it cannot be seen
  }
  const auto& last = loop.last_checkpoint();
  return SharedError(last.empty()
                         ? e.what()
                         : fmt::format("{}; --restart latest goes on from {} once that is mended",
                                       e.what(), last));
}

}  // namespace trireme
