#pragma once
// What a run can be at most: decks are held to it as checkpoints and tables are.
#include <cstdint>

namespace trireme {

// Counters of a run: steps, samples, tokens. Exact in a double, too, and their products with what a
// step takes fit.
inline constexpr std::int64_t most_counted = std::int64_t{1} << 53;

inline constexpr int most_ranks = 1 << 24;

}  // namespace trireme
