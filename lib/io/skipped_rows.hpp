#pragma once
// The table skipped.csv, with one row for each skipped step. Steps before a rollback keep their
// rows, so a step may have several rows with different samples.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/rollback_rows.hpp"

namespace trireme {

inline constexpr std::string_view skipped_columns =
    "step,reason,loss,grad_norm,first_sample,samples";

// One row of skipped.csv.
struct SkippedRow {
  std::int64_t step = 0;
  std::string reason;              // "no_targets", "not_finite", "above_limit" or "skip_steps"
  double loss = 0, grad_norm = 0;  // NaN if they were not computed
  // Numbers of the step's samples: [first_sample, first_sample + samples).
  std::int64_t first_sample = 0, samples = 0;
};
std::string to_csv(const SkippedRow&);
// Returns the row in a line, or nullopt if the line is no row.
std::optional<SkippedRow> skipped_row(std::string_view line);
bool is_skipped_row(std::string_view line);
// Returns true if the run left out the samples of the step in a rollback.
bool is_left_out(const SkippedRow&, std::span<const RollbackRow>);
// Returns the rows of the table in a run directory, in order, without damaged lines.
std::vector<SkippedRow> read_skipped(const std::filesystem::path& run);

}  // namespace trireme
