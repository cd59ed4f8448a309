#pragma once
// Ranges of bytes in a file.
#include <algorithm>
#include <cstdint>
#include <vector>

namespace trireme {

// The bytes [begin, end) of a file.
struct ByteRange {
  std::int64_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

// Returns the ranges of a file of `size` bytes that lie outside the ranges `left_out`, in ascending
// order. The ranges `left_out` may have any order, must not overlap, and are ignored if they have
// fewer than `least` bytes.
inline std::vector<ByteRange> ranges_outside(std::vector<ByteRange> left_out, std::int64_t size,
                                             std::int64_t least) {
  std::ranges::sort(left_out, {}, &ByteRange::begin);
  std::vector<ByteRange> ranges;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < left_out.size();) {
    auto [begin, end] = left_out[i++];
    for (; i < left_out.size() && left_out[i].begin == end; ++i) end = left_out[i].end;
    if (end - begin < least) continue;
    if (begin > at) ranges.push_back({at, begin});
    at = end;
  }
  if (at < size) ranges.push_back({at, size});
  return ranges;
}

}  // namespace trireme
