#pragma once
// Upper limits on the size of a run. Decks, checkpoints and tables are all checked against them.
#include <cstdint>

namespace trireme {

// Upper limit for the counters of steps, samples and tokens. A double represents every count up to
// it exactly. A counter multiplied by the amount for one step does not overflow 64 bits.
inline constexpr std::int64_t most_counted = std::int64_t{1} << 53;

inline constexpr int most_ranks = 1 << 24;

}  // namespace trireme
