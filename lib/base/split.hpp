#pragma once
// Texts taken apart, as views of them.
#include <string_view>
#include <vector>

namespace trireme {

// What is between the separators: one part more than there are of them.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// The lines that have an end, without it.
inline std::vector<std::string_view> whole_lines(std::string_view text) {
  auto lines = split(text, '\n');
  lines.pop_back();
  return lines;
}

}  // namespace trireme
