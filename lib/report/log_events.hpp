#pragma once
// What the log of a run says that its tables do not: restarts, skipped steps, checkpoints. Pure.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct LogEvents {
  std::vector<std::int64_t> restarts;           // the steps restarted from, as they came
  std::map<std::int64_t, std::string> skipped;  // by step, why
  std::set<std::int64_t> checkpoints;           // steps
};

// What a restart made again is forgotten.
LogEvents log_events(std::string_view log);

}  // namespace trireme
