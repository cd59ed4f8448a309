#include "lib/report/thin.hpp"

#include <algorithm>
#include <cmath>

namespace trireme {

std::vector<SeriesPoint> thinned(std::span<const SeriesPoint> all, std::size_t stretches) {
  std::vector<SeriesPoint> finite;
  for (const auto& p : all)
    if (std::isfinite(p.value)) finite.push_back(p);
  if (finite.size() <= 2 * stretches + 2) return finite;
  // Both ends stay, because readers look most at where a run began and at its result.
  std::vector<SeriesPoint> kept = {finite.front()};
  const auto inner = std::span(finite).subspan(1, finite.size() - 2);
  for (std::size_t i = 0; i < stretches; ++i) {
    const auto begin = inner.size() * i / stretches, end = inner.size() * (i + 1) / stretches;
    const auto part = inner.subspan(begin, end - begin);
    auto [low, high] = std::ranges::minmax_element(part, {}, &SeriesPoint::value);
    if (high < low) std::swap(low, high);
    kept.push_back(*low);
    if (high != low) kept.push_back(*high);
  }
  kept.push_back(finite.back());
  return kept;
}

}  // namespace trireme
