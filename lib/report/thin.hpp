#pragma once
// Shortens a long series so that it can be drawn. The series is divided into intervals (stretches).
// The lowest and highest points of each interval are kept, so no peak is lost. The function is
// pure.
#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

// One point of a series.
struct SeriesPoint {
  std::int64_t step = 0, tokens = 0;
  double value = 0;
  bool operator==(const SeriesPoint&) const = default;
};

// Returns at most 2 * stretches + 2 points in their original order, including the first and the
// last point. Values that are not finite are removed.
std::vector<SeriesPoint> thinned(std::span<const SeriesPoint>, std::size_t stretches);

}  // namespace trireme
