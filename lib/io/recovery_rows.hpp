#pragma once
// The table recoveries.csv in a run directory: after a process or a node failed, a job script
// started the run again in its allocation (jobscripts/recover.sh). The script writes the table.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// One row. docs/reference/tables.md describes the columns.
struct RecoveryRow {
  std::string time, job;
  std::string died;                       // what failed
  std::string nodes_before, nodes_after;  // separated by spaces
  std::int64_t ranks = 0;                 // of the new start
  // Last step of the failed start, and step of the checkpoint from which the run continued. Absent
  // if there is none, or if the new start failed before it trained.
  std::optional<std::int64_t> last_step{}, step{};
  std::optional<double> seconds{};  // until the new start trained
};

// Returns the rows of the table, in order, without lines that are no row. Returns an empty list if
// there is no table. Throws Error if the file cannot be read.
std::vector<RecoveryRow> read_recoveries(const std::filesystem::path& run);

// The recoveries of a run so far.
struct RecoveryTotals {
  std::int64_t count = 0;
  double seconds = 0;               // sum of RecoveryRow::seconds
  std::int64_t repeated_steps = 0;  // recorded steps that were computed again
  bool operator==(const RecoveryTotals&) const = default;
};
RecoveryTotals totals_of(const std::vector<RecoveryRow>&);

// Returns a sentence such as "no answer from n3; continued after step 40 on n1 n2 (16 ranks) 21 s
// after the failed start had ended; 2 steps were repeated".
std::string text_of(const RecoveryRow&);

}  // namespace trireme
