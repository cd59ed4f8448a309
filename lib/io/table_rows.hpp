#pragma once
// Repairs a run's table before the run continues it. A crash, a full disk or an editor may have
// damaged the file. These functions take and return texts and do not access files.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The step after which a table is continued, and the rows that the table should have.
struct TableStart {
  // Function that returns true if a line may be a row of the table. Step and number of fields are
  // checked separately. If null, all fields must be numbers or empty.
  bool (*is_row)(std::string_view line) = nullptr;
  // Last step to keep. Rows of later steps are dropped.
  std::int64_t step = 0;
  // Newest rows up to this step, as stored in the checkpoint.
  std::string carried = {};
  // First step from which each step should have a row. If absent, only some steps have rows.
  std::optional<std::int64_t> first{};
  // Steps that need not have a row.
  std::vector<std::int64_t> optional{};
  // Function that returns true for rows to keep whatever their step is, in the order of the file.
  std::function<bool(std::string_view line)> always{};
};

// A repaired table.
struct OrderedTable {
  // Text of the table: the header, and one row per step in order, besides TableStart::always.
  std::string text;
  // One line for each problem in the file.
  std::vector<std::string> remarks;
  // True if a line of the file for a step up to `TableStart::step` may be missing in `text`.
  bool lossy = false;
};

// Repairs a table. `file` is the table's text, or nullopt if the table does not exist. If the first
// line is not the header, the table counts as damaged. A last line without a newline is ignored.
OrderedTable put_in_order(const std::optional<std::string>& file, std::string_view header,
                          const TableStart&);

// The range of steps, or of other numbers, from `first` to `last`, inclusive.
struct StepRange {
  std::int64_t first, last;
};
// Parses "7" or "1200-1210". Returns nullopt if the text has another form, or if a number is less
// than `least` or above most_counted.
std::optional<StepRange> number_range(std::string_view text, std::int64_t least);
// Formats a list of steps, for example "1 to 8, 10 and 12 to 13". Steps must be in ascending order.
std::string steps_text(const std::vector<std::int64_t>& steps);
std::string steps_text(const std::vector<StepRange>& ranges);

}  // namespace trireme
