#include "lib/autograd/token_chunks.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "kernels/ref/ref.hpp"

namespace trireme {
namespace {

using Chunks = std::vector<TokenChunk>;

TEST(TokenChunks, AreRangesOfASampleOrWholeSamples) {
  EXPECT_EQ(token_chunks(2, 5, 0), (Chunks{{0, 2, 0, 5}}));
  EXPECT_EQ(token_chunks(2, 5, 10), (Chunks{{0, 2, 0, 5}}));
  EXPECT_EQ(token_chunks(2, 5, 3),
            (Chunks{{0, 1, 0, 3}, {0, 1, 3, 2}, {1, 1, 0, 3}, {1, 1, 3, 2}}));
  EXPECT_EQ(token_chunks(2, 5, 5), (Chunks{{0, 1, 0, 5}, {1, 1, 0, 5}}));
  EXPECT_EQ(token_chunks(5, 2, 5), (Chunks{{0, 2, 0, 2}, {2, 2, 0, 2}, {4, 1, 0, 2}}));
}

TEST(TokenChunks, EachTokenIsInOne) {
  for (std::int64_t samples = 1; samples <= 5; ++samples)
    for (std::int64_t tokens = 1; tokens <= 7; ++tokens)
      for (std::int64_t at_once = 1; at_once <= 40; ++at_once) {
        std::int64_t next = 0;
        for (const auto& c : token_chunks(samples, tokens, at_once)) {
          EXPECT_EQ(c.sample * tokens + c.token, next);
          EXPECT_TRUE(c.samples == 1 || c.tokens == tokens);
          EXPECT_LE(c.samples * c.tokens, at_once);
          next += c.samples * c.tokens;
        }
        EXPECT_EQ(next, samples * tokens);
      }
}

// All that a place says of tokens, of 3 samples and 4 positions here from the 8th on.
TEST(TokenChunks, APlaceIsCutAlike) {
  Ref backend;
  std::vector<std::int64_t> samples{70, 71, 72};
  std::vector<std::int32_t> targets(12), positions(12), starts(36);
  std::iota(targets.begin(), targets.end(), 0);
  std::iota(positions.begin(), positions.end(), 100);
  std::iota(starts.begin(), starts.end(), 200);
  const auto bytes = [](auto& v) { return reinterpret_cast<const std::byte*>(v.data()); };
  PassContext all;
  all.rows = {ConstView(bytes(samples), DType::i64, {3}), 8};
  all.targets_BT = ConstView(bytes(targets), DType::i32, {3, 4});
  all.position_BT = ConstView(bytes(positions), DType::i32, {3, 4});
  all.start_BT = ConstView(bytes(starts), DType::i32, {3, 12});
  all.seed = 9;

  const auto piece = pass_of(all, {1, 1, 2, 2}), pair = pass_of(all, {1, 2, 0, 4});

  const auto first = [](const ConstView& v) {
    return v.dtype == DType::i64 ? *reinterpret_cast<const std::int64_t*>(v.data)
                                 : *reinterpret_cast<const std::int32_t*>(v.data);
  };
  EXPECT_EQ(first(piece.rows.sample_B), 71);
  EXPECT_EQ(piece.rows.sample_B.count(), 1);
  EXPECT_EQ(piece.rows.t0, 10);
  EXPECT_EQ(first(piece.targets_BT), 6);
  EXPECT_EQ(first(piece.position_BT), 106);
  EXPECT_EQ(piece.position_BT.count(), 2);
  EXPECT_EQ(first(piece.start_BT), 212);
  EXPECT_EQ(piece.start_BT.count(), 12);
  EXPECT_EQ(piece.seed, 9U);
  EXPECT_EQ(pair.rows.t0, 8);
  EXPECT_EQ(first(pair.targets_BT), 4);
  EXPECT_EQ(pair.targets_BT.count(), 8);
  EXPECT_TRUE(pair.position_BT.dense());
  EXPECT_FALSE(pass_of({}, {0, 1, 0, 1}).position_BT);
}

}  // namespace
}  // namespace trireme
