#pragma once
// The resources that a run used on each rank: time by task, memory by kind and bytes sent by axis.
// At the end of the run, they are printed as a table and added to timing.json.
#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.hpp"
#include "lib/base/timesheet.hpp"
#include "lib/comm/axes.hpp"
#include "lib/io/recovery_rows.hpp"

namespace trireme {

// The resources that one rank used.
struct RankTiming {
  int rank = 0;
  Grid::At at;
  std::array<double, task_count> seconds{};  // by task; the sum is the time since the start
  Account account;
  Axes::Traffic sent;  // bytes

  // Returns the time since the start, in seconds.
  double wall() const;
};

// The resources that one process of the run used. A restart adds another process.
struct RunTiming {
  Grid grid;
  std::string backend;
  // First and last step: the process completed the steps after first_step up to last_step.
  std::int64_t first_step = 0, last_step = 0;
  std::int64_t tokens = 0;        // in these steps, without padding
  double steps_seconds = 0;       // time of these steps, without evaluations and saving
  double flops_a_token = 0;       // of the model, forward and backward pass
  double peak_flops = 0;          // FLOP/s of a rank; 0 means unknown
  std::vector<RankTiming> ranks;  // indexed by rank
  RecoveryTotals recoveries{};    // of the run, up to the end of the process

  // Returns the tokens per second during the computation of steps, or 0 if there were no steps.
  double tokens_a_second() const;
};

// Returns the timing of every rank, on all ranks. Collective. Times are the Timesheet's values up
// to now.
std::vector<RankTiming> gather_timing(const Axes&, const Account&);

// Returns the name of a task in the table, such as "reading samples".
std::string text_of(Task);
// Returns the lines of the table. Percentages are relative to the mean time of a rank.
std::vector<std::string> timing_lines(const RunTiming&);
// to_json() converts a timing to an element of timing.json. parse_timing() converts the text of a
// timing.json file to a list of timings. It throws Error if the text is invalid.
nlohmann::ordered_json to_json(const RunTiming&);
std::vector<RunTiming> parse_timing(std::string_view text);
// Appends a timing to the list in `file`. If the file is missing or damaged, starts a new list. If
// the file is damaged, also logs a warning. Throws Error if the file cannot be written.
void add_timing(const std::filesystem::path& file, const RunTiming&);

}  // namespace trireme
