#include "lib/plan/document_lengths.hpp"

#include <algorithm>

namespace trireme {

// Returns the pairs of n tokens, each of which attends to itself and to earlier tokens in a window.
static double causal_pairs(std::int64_t n, std::int64_t window) {
  const auto w = window > 0 ? std::min(window, n) : n;
  return static_cast<double>(w) * static_cast<double>(w + 1) / 2 +
         static_cast<double>(n - w) * static_cast<double>(w);
}

double DocumentLengths::share_of_pairs(std::int64_t window) const {
  if (lengths.empty()) return 1;
  double pairs = 0, tokens = 0;
  for (const auto& [n, documents] : lengths) {
    pairs += static_cast<double>(documents) * causal_pairs(n, window);
    tokens += static_cast<double>(documents * n);
  }
  return pairs * static_cast<double>(context) / (tokens * causal_pairs(context, window));
}

}  // namespace trireme
