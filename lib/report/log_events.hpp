#pragma once
// Extracts the events of a run that only its log records: restarts, skipped steps and checkpoints.
// Pure.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Events of a run.
struct LogEvents {
  // The steps from which the run was restarted, in order of time.
  std::vector<std::int64_t> restarts;
  std::map<std::int64_t, std::string> skipped;  // the reasons, by step
  std::set<std::int64_t> checkpoints;           // steps with a checkpoint
};

// Returns the events in the text of a log. A restart discards events of the steps that the run
// repeats.
LogEvents log_events(std::string_view log);

}  // namespace trireme
