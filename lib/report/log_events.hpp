#pragma once
// Extracts events that only the log of a run records: restarts, skipped steps, stalled training and
// checkpoints. The functions are pure.
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
  std::set<std::int64_t> checkpoints;           // steps with a checkpoint
};

// Returns the events in the text of a log. A restart discards the events of steps that the run
// repeats.
LogEvents log_events(std::string_view log);

}  // namespace trireme
