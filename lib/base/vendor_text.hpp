#pragma once
// Cleanup of error messages from libraries.
#include <string_view>

namespace trireme {

// Removes a leading tag such as "[json.exception.parse_error.101] ".
inline std::string_view without_tag(std::string_view text) {
  const auto end = text.find("] ");
  return text.starts_with('[') && end != std::string_view::npos ? text.substr(end + 2) : text;
}

}  // namespace trireme
