#include "lib/keys/commented.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {

std::string in_columns(const std::vector<CommentedLine>& lines) {
  constexpr std::size_t furthest = 36;
  std::size_t column = 0;
  for (const auto& l : lines)
    if (l.assignment.size() <= furthest) column = std::max(column, l.assignment.size());
  std::string text;
  for (const auto& l : lines)
    text += fmt::format("{:<{}}  # {}\n", l.assignment, column, l.comment);
  return text;
}

}  // namespace trireme
