#pragma once
// A long series made short enough to be drawn: of each stretch of it the lowest and the highest
// point, so that no peak is lost. Pure.
#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

struct SeriesPoint {
  std::int64_t step = 0, tokens = 0;
  double value = 0;
  bool operator==(const SeriesPoint&) const = default;
};

// At most 2 * stretches + 2 points in their order; values that are not finite are left out.
std::vector<SeriesPoint> thinned(std::span<const SeriesPoint>, std::size_t stretches);

}  // namespace trireme
