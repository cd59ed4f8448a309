#pragma once
// Words of libraries that a message quotes.
#include <string_view>

namespace trireme {

// Without the "[json.exception.parse_error.101] " that it begins with.
inline std::string_view without_tag(std::string_view text) {
  const auto end = text.find("] ");
  return text.starts_with('[') && end != std::string_view::npos ? text.substr(end + 2) : text;
}

}  // namespace trireme
