#include "lib/shard/policy.hpp"

#include <gtest/gtest.h>

#include "lib/base/error.hpp"

namespace trireme {

static constexpr auto step = ZeroCadence::step, microbatch = ZeroCadence::microbatch;
static constexpr Grid grid{2, 4, 2};  // 8 ranks hold the same layers

static ZeroPolicy policy_of(ZeroConfig z, DType compute = DType::f32, DType reduce = DType::f32) {
  return zero_policy(z, grid, compute, reduce);
}

TEST(Policy, IsTheTableOfStages) {
  for (const auto gather : {step, microbatch})
    for (const auto reduce : {step, microbatch}) {
      ZeroConfig z{.gather = gather, .reduce = reduce};
      EXPECT_EQ(policy_of(z), (ZeroPolicy{.sharers = 1}));
      z.stage = 1;
      EXPECT_EQ(policy_of(z), (ZeroPolicy{.sharers = 8}));
      z.stage = 2;
      EXPECT_EQ(policy_of(z), (ZeroPolicy{.sharers = 8, .reduce_every = microbatch}));
      z.stage = 3;
      EXPECT_EQ(policy_of(z),
                (ZeroPolicy{.sharers = 8, .gather_every = gather, .reduce_every = reduce}));
    }
  EXPECT_THROW(policy_of({.stage = 4}), Error);
}

TEST(Policy, GroupsOfRanksMayShare) {
  for (const std::int64_t stage : {1, 2, 3})
    for (const std::int64_t shard : {1, 2, 4, 8})
      EXPECT_EQ(policy_of({.stage = stage, .shard = shard}).sharers, shard);
  EXPECT_EQ(policy_of({.stage = 0, .shard = 4}).sharers, 1);
  EXPECT_EQ(zero_policy({.stage = 3}, {.pipe = 4}, DType::f32, DType::f32).sharers, 1);
}

TEST(Policy, NodesHoldCopies) {
  EXPECT_EQ(shard_ranks_within_node({1, 16, 1}, 8), 8);
  EXPECT_EQ(shard_ranks_within_node({2, 4, 2}, 16), 8);  // two stages on a node
  EXPECT_EQ(shard_ranks_within_node({2, 6, 2}, 8), 4);   // stages of 12: no group lies on two nodes
  EXPECT_EQ(shard_ranks_within_node({1, 4, 1}, 1), 1);
}

TEST(Policy, GradientsTravelInBf16WhereTheirSumsAreF32) {
  EXPECT_EQ(policy_of({}, DType::f32, DType::bf16).reduce, DType::bf16);
  EXPECT_EQ(policy_of({}, DType::bf16, DType::bf16).reduce, DType::bf16);
  EXPECT_EQ(policy_of({}, DType::bf16, DType::f32).reduce, DType::f32);
  EXPECT_EQ(policy_of({}, DType::f64, DType::bf16).reduce, DType::f64);
  EXPECT_EQ(policy_of({}, DType::f64, DType::f64).reduce, DType::f64);
}

}  // namespace trireme
