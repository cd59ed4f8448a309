#pragma once
// Upper limits on the size of a run, against which decks, checkpoints and tables are checked.
#include <cstdint>

namespace trireme {

// Upper limit for the counters of steps, samples and tokens. A double represents every count up to
// this limit exactly.
inline constexpr std::int64_t most_counted = std::int64_t{1} << 53;

inline constexpr int most_ranks = 1 << 24;

}  // namespace trireme
