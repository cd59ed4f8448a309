#include "lib/base/nearest.hpp"

#include <algorithm>
#include <vector>

namespace trireme {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table: distances of prefixes of `a` with lengths i - 2, i - 1 and i.
  std::vector<std::size_t> older(b.size() + 1), old(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) now[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(older, old);
    std::swap(old, now);
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = old[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({old[j] + 1, now[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        now[j] = std::min(now[j], older[j - 2] + 1);
      }
    }
  }
  return now[b.size()];
}

std::string nearest_name(std::string_view wrong, std::span<const std::string> candidates) {
  // Names are short. A long text is not a misspelled name and would make the table large.
  constexpr std::size_t longest = 64;
  if (wrong.size() > longest) return {};
  std::string best;
  std::size_t least = longest;
  for (const auto& name : candidates) {
    const std::size_t distance = edit_distance(wrong, name);
    if (distance < least && 2 * distance <= std::max(wrong.size(), name.size())) {
      least = distance;
      best = name;
    }
  }
  return best;
}

}  // namespace trireme
