#pragma once
// Formats commented lines of a TOML file.
#include <string>
#include <vector>

namespace trireme {

// An assignment `key = value` with the comment after it.
struct CommentedLine {
  std::string assignment, comment;
};

// Formats the lines with their comments aligned in one column. If an assignment is too long, only
// its own comment is moved.
std::string in_columns(const std::vector<CommentedLine>&);

}  // namespace trireme
