#pragma once
// The last step of a Chrome trace (lib/run/step_trace.hpp), as what each rank did when. Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct TraceBar {
  int rank = 0;
  std::string what;  // as lib/base/timesheet.hpp names tasks
  int microbatch = -1;
  double begin = 0, end = 0;  // milliseconds since the first of them
};

struct TracedStep {
  std::int64_t step = 0;  // 0: the trace holds none
  std::vector<TraceBar> bars;
  std::size_t left_out = 0;  // the shortest of too many
};

// Error when it is no such trace. At most `most` bars.
TracedStep last_traced_step(std::string_view chrome_trace, std::size_t most);

}  // namespace trireme
