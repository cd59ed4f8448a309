#pragma once
// Functions that split text into fields and lines and that parse numbers.
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

namespace trireme {

// Returns the parts between separators as views of `text`. The number of parts is the number of
// separators plus 1.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Returns the lines of `text` as views, without their newlines. Text after the last newline is
// ignored.
inline std::vector<std::string_view> whole_lines(std::string_view text) {
  auto lines = split(text, '\n');
  lines.pop_back();
  return lines;
}

// Parses a number as std::from_chars does. Returns nullopt unless the whole text is one number. For
// integers, `base` may be given, such as 16.
template <class T, class... Base>
std::optional<T> number_in(std::string_view text, Base... base) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value, base...);
  return read.ec == std::errc() && read.ptr == end ? std::optional(value) : std::nullopt;
}

}  // namespace trireme
