#pragma once
// Putting a table of a run in order before it goes on: rows by step, read from a file that a crash,
// a full disk or an editor may have damaged. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Where a table goes on.
struct TableStart {
  std::int64_t step = 0;                // restored; rows past it are dropped
  std::string carried = {};             // the newest rows up to it, as the checkpoint holds them
  std::optional<std::int64_t> first{};  // a row is due for each step from here on; none: for some
};

struct OrderedTable {
  std::string text;  // with the header; a row a step, in order
  // What was wrong with the file, a line each; empty: nothing.
  std::vector<std::string> remarks;
  bool lossy = false;  // some line of the file is not in `text`, and was not past the step
};

// `file`: its text, none when it is gone. A last line without its end counts as never written.
OrderedTable put_in_order(const std::optional<std::string>& file, std::string_view header,
                          const TableStart&);

// "1 to 8, 10 and 12 to 13"; ascending steps.
std::string steps_text(const std::vector<std::int64_t>& steps);

}  // namespace trireme
