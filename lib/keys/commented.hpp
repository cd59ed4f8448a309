#pragma once
// Formats commented lines of a TOML file.
#include <string>
#include <vector>

namespace trireme {

// An assignment `key = value` with the comment after it.
struct CommentedLine {
  std::string assignment, comment;
};

// Returns the lines with their comments aligned in one column. A long assignment shifts only its
// own comment.
std::string in_columns(const std::vector<CommentedLine>&);

}  // namespace trireme
