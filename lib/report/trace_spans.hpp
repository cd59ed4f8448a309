#pragma once
// Extracts the last step of a Chrome trace (lib/run/step_trace.hpp) as bars that show the activity
// of each rank over time. The functions are pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Period in which a rank works on one task.
struct TraceBar {
  int rank = 0;
  std::string what;  // a task's name in lib/base/timesheet.hpp
  int microbatch = -1;
  double begin = 0, end = 0;  // milliseconds from the begin of the step
};

// The bars of one step.
struct TracedStep {
  std::int64_t step = 0;  // 0 if the trace has no step
  std::vector<TraceBar> bars;
  std::size_t left_out = 0;  // number of bars dropped, the shortest ones
};

// Returns the last step in a trace, with at most `most` bars. Throws Error if the text is not a
// trace of a run.
TracedStep last_traced_step(std::string_view chrome_trace, std::size_t most);

}  // namespace trireme
