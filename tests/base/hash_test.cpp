#include "lib/base/hash.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "lib/base/rng.hpp"

namespace trireme {

// `printf "" | xxhsum -H2` and of "a", by the xxhsum tool.
TEST(Hash128, PrintsWhatXxhsumPrints) {
  EXPECT_EQ(to_string(hash128("")), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(to_string(hash128("a")), "a96faf705af16834e6c632b61e964e1f");
  EXPECT_EQ(parse_hash(to_string(hash128("a"))), hash128("a"));
  EXPECT_FALSE(parse_hash("A96faf705af16834e6c632b61e964e1f"));
  EXPECT_FALSE(parse_hash("a96f"));
}

TEST(Hash128, PiecesGiveTheHashOfTheWhole) {
  const std::string text(10'000, 'x');
  const auto bytes = std::as_bytes(std::span(text));
  Hasher hasher;
  hasher.update(bytes.first(1));
  hasher.update(bytes.subspan(1, 700));
  hasher.update(bytes.subspan(701));
  EXPECT_EQ(hasher.digest(), hash128(text));
}

}  // namespace trireme
