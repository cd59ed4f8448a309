#pragma once
// Some steps of a run as a Chrome trace, one file for all ranks: a process for each rank, a track
// for each queue; for ui.perfetto.dev or chrome://tracing.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kernels/trace.hpp"
#include "lib/comm/axes.hpp"

namespace trireme {

struct TraceConfig {
  std::vector<std::int64_t> steps;  // first and last, counted from 1 as in history; empty: none
  std::vector<std::int64_t> ranks;  // empty: all
};

// Collective, on all ranks.
class StepTrace {
 public:
  // Files go to `folder`, written by rank 0. The axes outlive this.
  StepTrace(const Axes&, TraceConfig, std::filesystem::path folder);

  void begin(std::int64_t step);
  // Writes the file after the last step. A file that cannot be written is a warning.
  void end(std::int64_t step);
  // At the end of the run: writes what was recorded and not written yet.
  void close();

 private:
  bool mine() const;
  void write();

  const Axes& axes_;
  TraceConfig config_;
  std::filesystem::path folder_;
  std::int64_t first_ = 0, last_ = 0;  // recorded; 0: none
  std::int64_t offset_ = 0;            // from this rank's clock to rank 0's
  std::int64_t begun_ = 0;             // when the step began
  std::vector<TraceSpan> spans_;
};

// The events of one process, "{...},\n{...}", in microseconds after `origin`. Overlapping spans of
// a queue get several tracks ("gather", "gather 2"), except on compute, where spans nest. Pure.
std::string chrome_events(int rank, const std::string& process, std::span<const TraceSpan>,
                          std::int64_t origin);

}  // namespace trireme
