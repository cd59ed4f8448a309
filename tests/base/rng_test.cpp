#include "lib/base/rng.hpp"

#include <gtest/gtest.h>

namespace trireme {

// Known-answer vectors of Random123 (kat_vectors, philox4x32 10 rounds).
TEST(Philox, MatchesKnownAnswers) {
  EXPECT_EQ(philox4x32(0, 0, 0), (Random4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const auto ones = ~0ULL;
  EXPECT_EQ(philox4x32(ones, ones, ones),
            (Random4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

}  // namespace trireme
