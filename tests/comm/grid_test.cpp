#include "lib/comm/grid.hpp"

#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <utility>

#include "lib/base/error.hpp"
#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

const GridLimits model = {.layers = 12, .tokens = 1024, .batch = 64};

// Grids with few and many ranks, factors that are no powers of two, and 4,096 ranks.
std::vector<Grid> samples() {
  std::vector<Grid> all = {{4, 1, 1}, {1, 6, 1}, {1, 1, 5}, {3, 5, 2}, {2, 3, 4}};
  for (const std::int64_t ranks : {1, 2, 8, 60, 4096}) {
    for (const Grid& g : legal_grids({}, ranks)) all.push_back(g);
  }
  return all;
}

// Ranks of each color by key. Colors have to be 0, 1, .. and keys 0 .. size-1, each once.
template <class F>
std::vector<std::vector<int>> communicators(const Grid& g, F group_of) {
  std::vector<std::vector<int>> members;
  int wrong = 0, left = 0;
  for (int rank = 0; rank < g.ranks(); ++rank) {
    const Group group = group_of(rank);
    const auto color = static_cast<std::size_t>(group.color);
    const auto size = static_cast<std::size_t>(group.size);
    if (members.size() <= color) members.resize(color + 1);
    auto& ranks = members[color];
    if (ranks.empty()) {
      ranks.assign(size, -1);
      left += group.size;
    }
    wrong += ranks.size() != size;
    wrong += std::exchange(ranks.at(static_cast<std::size_t>(group.key)), rank) != -1;
    --left;
  }
  EXPECT_EQ(wrong, 0) << describe(g);
  EXPECT_EQ(left, 0) << describe(g);
  for (const auto& ranks : members) EXPECT_FALSE(ranks.empty()) << describe(g);
  return members;
}

std::string message_of(const Grid& g, const GridLimits& limits) {
  const auto problems = grid_problems(g, limits);
  EXPECT_EQ(problems.size(), 1U);
  return problems.empty() ? "" : problems[0].message;
}

std::string refusal(const Grid& g, const GridLimits& limits, std::int64_t ranks) {
  return trireme::message_of([&] { fit_grid(g, limits, ranks); });
}

}  // namespace

TEST(Grid, SeqIsFastestThenData) {
  const Grid g{2, 3, 4};
  EXPECT_EQ(g.at(0), (Grid::At{0, 0, 0}));
  EXPECT_EQ(g.at(1), (Grid::At{0, 0, 1}));
  EXPECT_EQ(g.at(4), (Grid::At{0, 1, 0}));
  EXPECT_EQ(g.at(12), (Grid::At{1, 0, 0}));
  EXPECT_EQ(g.at(23), (Grid::At{1, 2, 3}));
  EXPECT_EQ(g.place(23), 2 * 4 + 3);
}

TEST(Grid, RankAndPlaceAreInverse) {
  for (const Grid& g : samples()) {
    for (int rank = 0; rank < g.ranks(); ++rank) {
      const Grid::At at = g.at(rank);
      ASSERT_EQ(g.rank(at), rank) << describe(g);
      ASSERT_EQ(g.place(rank), at.data * g.seq + at.seq);
    }
  }
}

TEST(Grid, CommunicatorsHoldTheRanksOfTheirAxis) {
  for (const Grid& g : samples()) {
    const auto seq = communicators(g, [&](int rank) { return seq_group(g, rank); });
    for (const auto& ranks : seq) {
      Grid::At at = g.at(ranks[0]);
      for (at.seq = 0; at.seq < g.seq; ++at.seq) {
        ASSERT_EQ(ranks[static_cast<std::size_t>(at.seq)], g.rank(at)) << describe(g);
      }
    }
    const auto pipe = communicators(g, [&](int rank) { return pipe_group(g, rank); });
    for (const auto& ranks : pipe) {
      Grid::At at = g.at(ranks[0]);
      for (at.pipe = 0; at.pipe < g.pipe; ++at.pipe) {
        ASSERT_EQ(ranks[static_cast<std::size_t>(at.pipe)], g.rank(at)) << describe(g);
      }
    }
  }
}

TEST(Grid, ShardsAreConsecutivePlacesAndReplicasAStrideApart) {
  for (const Grid& g : samples()) {
    for (const std::int64_t n : divisors(g.places())) {
      const int shard = static_cast<int>(n);
      const auto shards = communicators(g, [&](int r) { return shard_group(g, shard, r); });
      for (const auto& ranks : shards) {
        for (int i = 0; i < shard; ++i) {
          const int rank = ranks[static_cast<std::size_t>(i)];
          ASSERT_EQ(rank, ranks[0] + i) << shard;
          ASSERT_EQ(g.at(rank).pipe, g.at(ranks[0]).pipe);
        }
        ASSERT_EQ(g.place(ranks[0]) % shard, 0);
      }
      const auto replicas = communicators(g, [&](int r) { return replica_group(g, shard, r); });
      for (const auto& ranks : replicas) {
        for (std::size_t i = 0; i < ranks.size(); ++i) {
          ASSERT_EQ(g.at(ranks[i]).pipe, g.at(ranks[0]).pipe);
          ASSERT_EQ(g.place(ranks[i]), g.place(ranks[0]) + static_cast<int>(i) * shard);
          // The same slice of a copy.
          ASSERT_EQ(shard_group(g, shard, ranks[i]).key, shard_group(g, shard, ranks[0]).key);
        }
      }
      ASSERT_EQ(static_cast<int>(shards.size()) * shard, g.ranks());
      ASSERT_EQ(static_cast<int>(replicas.size()), g.pipe * shard);
    }
  }
}

// Of every stage: expert groups are consecutive places; ranks with the same share of the experts
// form copies of it, and between them all these ranks hold every slice once a copy.
TEST(Grid, ExpertsAreSharedOutOverConsecutivePlaces) {
  for (Grid g : samples())
    for (const auto e : divisors(g.places()))
      for (const auto n : divisors(g.places())) {
        if (n % e != 0 && e % n != 0) continue;
        g.expert = static_cast<int>(e);
        const int shard = static_cast<int>(n);
        const auto groups = communicators(g, [&](int r) { return expert_group(g, r); });
        for (const auto& ranks : groups) {
          ASSERT_EQ(std::ssize(ranks), e);
          ASSERT_EQ(g.place(ranks[0]) % g.expert, 0);
          ASSERT_EQ(ranks.back(), ranks[0] + g.expert - 1);
        }
        const auto copies =
            communicators(g, [&](int r) { return expert_shard_group(g, shard, r); });
        for (const auto& ranks : copies) {
          ASSERT_EQ(std::ssize(ranks), std::max<std::int64_t>(1, n / e));
          for (const int r : ranks) {
            ASSERT_EQ(expert_group(g, r).key, expert_group(g, ranks[0]).key);
            ASSERT_EQ(shard_group(g, shard, r).color, shard_group(g, shard, ranks[0]).color);
          }
        }
        const auto replicas =
            communicators(g, [&](int r) { return expert_replica_group(g, shard, r); });
        for (const auto& ranks : replicas)
          for (const int r : ranks) {
            ASSERT_EQ(g.at(r).pipe, g.at(ranks[0]).pipe);
            ASSERT_EQ(expert_group(g, r).key, expert_group(g, ranks[0]).key);
            ASSERT_EQ(expert_shard_group(g, shard, r).key,
                      expert_shard_group(g, shard, ranks[0]).key);
          }
        const auto with_a_share = g.places() / e;
        ASSERT_EQ(std::ssize(copies[0]) * std::ssize(replicas[0]), with_a_share);
      }
}

TEST(Grid, LegalGridsAreThoseWithoutAProblem) {
  for (const std::int64_t ranks : {1, 2, 3, 4, 8, 12, 24, 64, 4096}) {
    std::set<std::tuple<int, int, int>> expected;
    for (int pipe = 1; pipe <= 12; ++pipe) {
      for (int seq = 1; seq <= 1024; ++seq) {
        for (int data = 1; data <= 64; ++data) {
          if (std::int64_t{pipe} * seq * data == ranks && 1024 % seq == 0 && 64 % data == 0) {
            expected.insert({pipe, data, seq});
          }
        }
      }
    }
    std::set<std::tuple<int, int, int>> found;
    for (const Grid& g : legal_grids(model, ranks)) {
      EXPECT_TRUE(found.insert({g.pipe, g.data, g.seq}).second);
    }
    EXPECT_EQ(found, expected) << ranks;
  }
}

TEST(Grid, StagesNeedBlocks) {
  EXPECT_EQ(
      message_of({13, 1, 1}, model),
      "parallel.pipe = 13 is more than model.layers = 12; each stage needs at least one block");
  EXPECT_TRUE(grid_problems({12, 1, 1}, model).empty());
}

TEST(Grid, SequenceRanksNeedWholeTokens) {
  EXPECT_EQ(message_of({1, 1, 5}, model),
            "parallel.seq = 5 does not divide model.context = 1024; degrees that do: 1, 2, 4, 8, "
            "16, 32, 64, 128");
  EXPECT_TRUE(grid_problems({1, 1, 16}, model).empty());
}

TEST(Grid, BatchIsSharedByDataRanksAndMicrobatches) {
  EXPECT_EQ(message_of({1, 5, 1}, model),
            "train.batch = 64 is not divisible by parallel.data = 5; batches that are: 60, 65; "
            "data degrees that divide it: 1, 2, 4, 8, 16, 32, 64");
  GridLimits l = model;
  l.batch = 3;
  EXPECT_NE(message_of({1, 5, 1}, l).find("batches that are: 5;"), std::string::npos);
  l.batch = 24;
  l.microbatch = 5;
  EXPECT_EQ(message_of({1, 2, 1}, l),
            "train.microbatch = 5 does not divide the 12 samples of a data rank (train.batch = 24, "
            "parallel.data = 2); microbatches that do: 1, 2, 3, 4, 6, 12");
  EXPECT_NE(message_of({1, 5, 1}, l).find("batches that are: 25;"), std::string::npos);
  l.microbatch = 4;
  EXPECT_TRUE(grid_problems({1, 2, 1}, l).empty());
}

TEST(Grid, SmallerBatchesMustFit) {
  GridLimits l = model;
  l.smaller_batches = {16, 40};
  EXPECT_TRUE(grid_problems({1, 8, 1}, l).empty());
  EXPECT_EQ(message_of({1, 16, 1}, l),
            "the batch 40 of train.batch_ramp is not divisible by parallel.data = 16; batches that "
            "are: 32, 48; data degrees that divide it: 1, 2, 4, 5, 8, 10, 20, 40");
  l.microbatch = 2;
  EXPECT_EQ(message_of({1, 8, 1}, l),
            "train.microbatch = 2 does not divide the 5 samples of a data rank (the batch 40 of "
            "train.batch_ramp, parallel.data = 8); microbatches that do: 1, 5");
  l.microbatch = 1;
  EXPECT_TRUE(grid_problems({1, 8, 1}, l).empty());
}

TEST(Grid, ShardsFillAStage) {
  GridLimits l = model;
  l.shard = 3;
  EXPECT_EQ(message_of({2, 2, 4}, l),
            "zero.shard = 3 does not divide the parallel.data x parallel.seq = 2 x 4 ranks of a "
            "stage; sizes that do: 1, 2, 4, 8");
  EXPECT_TRUE(grid_problems({2, 0, 4}, l).empty()) << "data is not decided yet";
  l.shard = 2;
  EXPECT_TRUE(grid_problems({2, 2, 4}, l).empty());
}

TEST(Grid, FitsTheRanksOrNamesGridsThatDo) {
  EXPECT_EQ(fit_grid({2, 0, 2}, model, 16), (Grid{2, 4, 2}));
  EXPECT_EQ(fit_grid({2, 4, 2}, model, 16), (Grid{2, 4, 2}));
  EXPECT_EQ(
      refusal({2, 2, 2}, model, 4),
      "a grid of pipe 2 x data 2 x seq 2 does not fill 4 ranks: start 8 ranks (mpiexec -n 8; for "
      "check and plan: --ranks 8). Grids of 4 ranks (pipe x data x seq): 1 x 2 x 2, 2 x 2 x 1, "
      "2 x 1 x 2, 1 x 4 x 1, 1 x 1 x 4, 4 x 1 x 1");
  EXPECT_EQ(refusal({3, 0, 1}, model, 7),
            "a grid of pipe 3 x data auto x seq 1 does not fill 7 ranks: start a multiple of 3 "
            "ranks (mpiexec -n 3; for check and plan: --ranks 3). Grids of 7 ranks (pipe x data x "
            "seq): 7 x 1 x 1");
  EXPECT_EQ(
      refusal({1, 1, 1}, model, 13),
      "a grid of pipe 1 x data 1 x seq 1 does not fill 13 ranks: start 1 rank (mpiexec -n 1; for "
      "check and plan: --ranks 1). No grid of 13 ranks fits this model and batch");
  EXPECT_EQ(refusal({1, 0, 1}, model, 0), "a run has between 1 and 2^30 ranks, not 0");
  // A product that overflows an int is still no fit.
  EXPECT_NE(refusal({65536, 1 << 20, 65536}, model, 1), "");
}

TEST(OwnedExperts, AreSoManyInARowAndTheFirstRanksHaveOneMore) {
  const auto of = [](int rank) {
    const auto o = owned_experts(10, rank, 3);
    return std::pair(o.first, o.end);
  };

  EXPECT_EQ(of(0), std::pair(std::int64_t{0}, std::int64_t{4}));
  EXPECT_EQ(of(1), std::pair(std::int64_t{4}, std::int64_t{7}));
  EXPECT_EQ(of(2), std::pair(std::int64_t{7}, std::int64_t{10}));
}

}  // namespace trireme
