#pragma once
// Repairs a run's table before it is continued: rows by step, read from a file that a crash, a full
// disk or an editor may have damaged. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Where a table is continued.
struct TableStart {
  // May a line be a row, beside its step and number of fields? null: if all its fields are numbers.
  bool (*is_row)(std::string_view line) = nullptr;
  std::int64_t step = 0;                 // restored; rows past it are dropped
  std::string carried = {};              // the newest rows up to it, from the checkpoint
  std::optional<std::int64_t> first{};   // each step from here on has a row; none: some steps have
  std::vector<std::int64_t> optional{};  // of these steps, those that may have none
};

struct OrderedTable {
  std::string text;  // with the header; a row a step, in order
  // What was wrong with the file, a line each; empty: nothing.
  std::vector<std::string> remarks;
  bool lossy = false;  // a line of the file, not past the step, is not in `text`
};

// `file`: its text, none if it is missing. A first line other than the header is damage. A last
// line without newline is ignored.
OrderedTable put_in_order(const std::optional<std::string>& file, std::string_view header,
                          const TableStart&);

// Steps [first, last].
struct StepRange {
  std::int64_t first, last;
};
// "1 to 8, 10 and 12 to 13"; ascending steps.
std::string steps_text(const std::vector<std::int64_t>& steps);
std::string steps_text(const std::vector<StepRange>& ranges);

}  // namespace trireme
