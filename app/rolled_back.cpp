#include "app/rolled_back.hpp"

#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/io/rollback_rows.hpp"

namespace trireme {

void record_rollback(const RunDirectory& directory, const std::string& from,
                     const Rollback& rollback) {
  require(!from.empty(), "{} contains no intact checkpoint up to step {} to roll back to",
          directory.checkpoints().string(), rollback.last_good);
  directory.require_lock();
  const auto meta = CheckpointReader(from).meta();
  for (const auto& path : set_aside_after(directory.checkpoints(), meta.step))
    log_info("a later checkpoint was renamed to {}", path.string());
  auto rows = rollbacks_until(directory.path(), meta);
  const auto before = last_rollback_to(rows, meta.step);
  const auto first = before ? before->next_sample() : meta.samples;
  require(
      rollback.next_sample > first,
      "the run rolls back to the checkpoint of step {} again, although it has left out the samples "
      "before {}: remove train.rollback, or check the data",
      meta.step, first);
  rows.push_back({meta.step, rollback.last_skipped, first, rollback.next_sample - first,
                  rollback.data_phases});
  write_rollbacks(directory.path(), rows);
  log_warning(
      "steps {} to {} were skipped, so the run rolls back to the checkpoint of step {} and "
      "continues with sample {}. It leaves out {} (rollbacks.csv)",
      rollback.last_good + 1, rollback.last_skipped, meta.step, rollback.next_sample,
      counted(rollback.next_sample - first, "sample"));
}

void record_failed_rollback(const RunDirectory& directory, const SharedError& e) {
  try {
    auto outcome = directory.read_outcome();
    if (!outcome || outcome->status != "running") return;
    outcome->status = "failed";
    outcome->exit_reason = e.what();
    directory.write_outcome(*outcome);
  } catch (const Error& second) {
    log_error("{}", second.what());
  }
}

}  // namespace trireme
