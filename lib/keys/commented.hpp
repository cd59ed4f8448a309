#pragma once
// Lines of a TOML file that is written for its readers.
#include <string>
#include <vector>

namespace trireme {

struct CommentedLine {
  std::string assignment, comment;
};

// Comments stand in one column, unless a long value pushes its own away.
std::string in_columns(const std::vector<CommentedLine>&);

}  // namespace trireme
