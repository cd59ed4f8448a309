#pragma once
#include <cstddef>

namespace trireme {

// The byte range [begin, end) of a text.
struct TextSpan {
  std::size_t begin = 0, end = 0;
  bool operator==(const TextSpan&) const = default;
};

}  // namespace trireme
