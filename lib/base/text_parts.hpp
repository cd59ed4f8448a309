#pragma once
// Texts taken apart: fields and lines, as views of them, and numbers.
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
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

// The number that all of a text is, as std::from_chars reads it: with `base` 16 of an integer.
template <class T, class... Base>
std::optional<T> number_in(std::string_view text, Base... base) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value, base...);
  return read.ec == std::errc() && read.ptr == end ? std::optional(value) : std::nullopt;
}

}  // namespace trireme
