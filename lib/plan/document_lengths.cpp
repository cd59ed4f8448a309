#include "lib/plan/document_lengths.hpp"

#include <algorithm>
#include <numeric>

namespace trireme {

// Returns the pairs of n tokens, each of which attends to itself and to earlier tokens in a window.
static double causal_pairs(std::int64_t n, std::int64_t window) {
  const auto w = window > 0 ? std::min(window, n) : n;
  return static_cast<double>(w) * static_cast<double>(w + 1) / 2 +
         static_cast<double>(n - w) * static_cast<double>(w);
}

double DocumentLengths::share_of_pairs(std::int64_t window) const {
  const auto tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  if (tokens == 0) return 1;
  double pairs = 0;
  for (const auto n : lengths) pairs += causal_pairs(n, window);
  return pairs * static_cast<double>(context) /
         (static_cast<double>(tokens) * causal_pairs(context, window));
}

}  // namespace trireme
