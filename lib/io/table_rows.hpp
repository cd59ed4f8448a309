#pragma once
// Repairs a run's table before it is continued. A crash, a full disk or an editor may have damaged
// the file. These functions take and return texts and do not access files.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The step after which a table is continued, and the rows that it should have.
struct TableStart {
  // Returns true if a line may be a row, apart from its step and number of fields. If null, all
  // fields must be numbers or empty.
  bool (*is_row)(std::string_view line) = nullptr;
  // Last step to keep. Rows after it are dropped.
  std::int64_t step = 0;
  // Newest rows up to this step, from the checkpoint.
  std::string carried = {};
  // From this step on, each step should have a row. If absent, only some steps have rows.
  std::optional<std::int64_t> first{};
  // Steps that need not have a row.
  std::vector<std::int64_t> optional{};
};

// A repaired table.
struct OrderedTable {
  // With the header. One row per step, in order.
  std::string text;
  // One line for each problem in the file.
  std::vector<std::string> remarks;
  // True if a line of the file, not after `TableStart::step`, may be missing in `text`.
  bool lossy = false;
};

// Repairs a table. `file` is its text, or nullopt if it is missing. If the first line is not the
// header, the table is damaged. A last line without a newline is ignored.
OrderedTable put_in_order(const std::optional<std::string>& file, std::string_view header,
                          const TableStart&);

// The steps from `first` to `last`, inclusive.
struct StepRange {
  std::int64_t first, last;
};
// Returns a text such as "1 to 8, 10 and 12 to 13". Steps must be ascending.
std::string steps_text(const std::vector<std::int64_t>& steps);
std::string steps_text(const std::vector<StepRange>& ranges);

}  // namespace trireme
