#pragma once
// Extracts events that only the log of a run records: restarts, rollbacks, skipped steps, stalled
// training, slow hosts, checkpoints, phases and larger batches. The functions are pure.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Events of a run.
struct LogEvents {
  // Steps from which the run was restarted, in chronological order.
  std::vector<std::int64_t> restarts;
  std::map<std::int64_t, std::string> skipped;  // the reasons, by step
  std::map<std::int64_t, std::string> stalled;  // the reasons, by step
  std::map<std::int64_t, std::string> slow;     // texts about slow hosts, by step
  std::set<std::int64_t> checkpoints;           // steps with a checkpoint
  // Why the run rolled back to a checkpoint, by the step of the checkpoint.
  std::multimap<std::int64_t, std::string> rollbacks;
  std::map<std::int64_t, std::string> phases;   // where samples come from, by the first step
  std::map<std::int64_t, std::string> batches;  // how the batch grows, by the first step
};

// Returns the events in the text of a log. A restart or a rollback discards the events of steps
// that the run repeats.
LogEvents log_events(std::string_view log);

}  // namespace trireme
