#pragma once
// Bounds of what is counted, in decks, checkpoints and tables alike.
#include <cstdint>

namespace trireme {

// Counters of a run: exact in a double, too, and their products with what a step takes fit.
inline constexpr std::int64_t most_counted = std::int64_t{1} << 53;

inline constexpr int most_ranks = 1 << 24;

}  // namespace trireme
