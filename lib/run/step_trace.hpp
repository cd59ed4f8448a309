#pragma once
// Records some steps of a run as a Chrome trace for ui.perfetto.dev or chrome://tracing. One file
// contains all ranks. Each rank is shown as a process, and each queue as a track.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kernels/trace.hpp"
#include "lib/comm/axes.hpp"

namespace trireme {

// Selection of steps and ranks to trace.
struct TraceConfig {
  // First and last step to trace, counted from 1 as in history.csv. Empty traces no steps.
  std::vector<std::int64_t> steps;
  std::vector<std::int64_t> ranks;  // empty traces all ranks
};

// Records and writes a trace. All functions are collective over all ranks.
class StepTrace {
 public:
  // Rank 0 writes the file to `folder`. The axes must outlive this object.
  StepTrace(const Axes&, TraceConfig, std::filesystem::path folder);

  void begin(std::int64_t step);
  // Ends a step. After the last step to trace, writes the file. If the file cannot be written, logs
  // a warning.
  void end(std::int64_t step);
  // Writes all recorded spans that have not been written yet. Call it at the end of the run.
  void close();

 private:
  bool mine() const;
  void write();

  const Axes& axes_;
  TraceConfig config_;
  std::filesystem::path folder_;
  std::int64_t first_ = 0, last_ = 0;  // recorded steps; 0 means none
  std::int64_t offset_ = 0;            // from this rank's clock to rank 0's
  std::int64_t begun_ = 0;             // time at which the step began
  std::vector<TraceSpan> spans_;
};

// Returns the events of one process as "{...},\n{...}", in microseconds after `origin`. If spans of
// a queue overlap, the queue gets several tracks ("gather", "gather 2"). The compute queue always
// has one track, because its spans nest. The function is pure.
std::string chrome_events(int rank, const std::string& process, std::span<const TraceSpan>,
                          std::int64_t origin);

}  // namespace trireme
