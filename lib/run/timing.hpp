#pragma once
// What a run took: time by task, memory by kind and bytes by axis, of each rank. At its end it is
// printed as a table, as codes of molecular dynamics do, and added to timing.json.
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

namespace trireme {

struct RankTiming {
  int rank = 0;
  Grid::At at;
  std::array<double, task_count> seconds{};  // they add up to the time since the start
  Account account;
  Axes::Traffic sent;  // bytes

  double wall() const;
};

// Of one process of the run, which a restart follows with another.
struct RunTiming {
  Grid grid;
  std::string backend;
  std::int64_t first_step = 0, last_step = 0;  // made from after the one to the other
  std::int64_t tokens = 0;                     // in these steps, padding left out
  double steps_seconds = 0;                    // that they took, without evaluations and saving
  double flops_a_token = 0;                    // of the model, forward and backward
  double peak_flops = 0;                       // a second and rank; 0: not known
  std::vector<RankTiming> ranks;               // by rank, the same on all

  double tokens_a_second() const;  // while steps were made; 0: there were none
};

// Collective: every rank's, on all ranks. The times are those of Timesheet until now.
std::vector<RankTiming> gather_timing(const Axes&, const Account&);

// The table, a line each. A percentage is of the mean rank's time.
std::vector<std::string> timing_lines(const RunTiming&);
// As the file has it, and the list of such a file; Error for a text that is none.
nlohmann::ordered_json to_json(const RunTiming&);
std::vector<RunTiming> parse_timing(std::string_view text);
// Adds it to the list in `file`, which it begins when it is missing or damaged. Error.
void add_timing(const std::filesystem::path& file, const RunTiming&);

}  // namespace trireme
