#include "lib/ops/expert_rounds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/draw.hpp"

namespace trireme::ops {

using testing::ElementsAre;

TEST(OwnedExperts, AreSoManyInARowAndTheFirstRanksHaveOneMore) {
  const auto of = [](int rank) {
    const auto o = owned_experts(10, rank, 3);
    return std::pair(o.first, o.end);
  };

  EXPECT_EQ(of(0), std::pair(std::int64_t{0}, std::int64_t{4}));
  EXPECT_EQ(of(1), std::pair(std::int64_t{4}, std::int64_t{7}));
  EXPECT_EQ(of(2), std::pair(std::int64_t{7}, std::int64_t{10}));
}

// Two ranks, one expert each; rank 0 sends 3 rows to expert 0 and 1 to expert 1, rank 1 sends 2
// and 2. Rounds of 3: owner 0 takes 3 and 2, owner 1 takes 3 in one.
TEST(ExpertRounds, OfASmallExample) {
  const ExpertCounts counts{.ranks = 2, .experts = 2, .rows = {3, 1, 2, 2}};

  const auto first = make_expert_rounds(counts, 0, 3), second = make_expert_rounds(counts, 1, 3);

  ASSERT_EQ(first.size(), 2U);
  ASSERT_EQ(second.size(), 2U);
  EXPECT_THAT(first[0].send, ElementsAre(RowRange{0, 3}, RowRange{3, 1}));
  EXPECT_THAT(first[0].receive, ElementsAre(3, 0));
  EXPECT_THAT(first[0].place, ElementsAre(0, 1, 2));
  EXPECT_THAT(first[0].offset, ElementsAre(0, 3));
  EXPECT_THAT(first[1].receive, ElementsAre(0, 2));
  EXPECT_EQ(first[1].send[0].count, 0);
  EXPECT_THAT(second[0].send, ElementsAre(RowRange{0, 0}, RowRange{2, 2}));
  EXPECT_THAT(second[1].send[0], (RowRange{0, 2}));
  EXPECT_THAT(second[0].receive, ElementsAre(1, 2));
  EXPECT_THAT(second[0].place, ElementsAre(0, 1, 2));
}

TEST(ExpertRounds, AreOneAndAQuarterOfAnEvenLoad) {
  const ExpertCounts counts{.ranks = 2, .experts = 4, .rows = {16, 0, 0, 0, 0, 0, 0, 16}};

  EXPECT_EQ(rows_of_round(counts, {0, 2}, 0), 20);
  EXPECT_EQ(rows_of_round(counts, {0, 1}, 0), 10);
  EXPECT_EQ(rows_of_round(counts, {0, 2}, 7), 7);
  EXPECT_EQ(rows_of_round(counts, {0, 2}, 700), 32);
}

// One row in all the ranks' lists: where it comes from and stands there.
struct Source {
  int rank;
  std::int64_t expert, leaf;
  bool operator==(const Source&) const = default;
};

// A rank's rows, sorted by expert, those of one expert by leaf.
static std::vector<Source> sorted_rows(const ExpertCounts& c, int rank) {
  std::vector<Source> all;
  for (std::int64_t e = 0; e < c.experts; ++e)
    for (std::int64_t l = 0; l < c.leaves; ++l)
      all.insert(all.end(), static_cast<std::size_t>(c.at(rank, l, e)), {rank, e, l});
  return all;
}

static ExpertCounts drawn_counts(Draw& draw) {
  ExpertCounts c;
  c.ranks = static_cast<int>(draw.between(1, 5));
  c.experts = draw.between(c.ranks, 12);
  c.leaves = draw.one_of({1, 1, 3});
  c.leaf_rows = c.leaves > 1 || draw.once_in(3) ? 6 : 0;
  const bool skewed = draw.once_in(3);
  for (std::int64_t i = 0; i < c.ranks * c.leaves * c.experts; ++i) {
    const bool one = i % c.experts == c.experts - 1;
    c.rows.push_back(skewed && !one ? 0 : draw.once_in(4) ? 0 : draw.between(0, 6));
  }
  return c;
}

// What all ranks send is carried to where it is received.
static void expect_all_arrive(const ExpertCounts& c, std::int64_t wanted) {
  std::vector<std::vector<ExpertRound>> rounds;
  for (int r = 0; r < c.ranks; ++r) rounds.push_back(make_expert_rounds(c, r, wanted));
  for (int to = 0; to < c.ranks; ++to) {
    const auto owned = owned_experts(c.experts, to, c.ranks);
    const auto most = rows_of_round(c, owned, wanted);
    std::vector<Source> arrived;
    ASSERT_EQ(rounds[static_cast<std::size_t>(to)].size(), rounds[0].size());
    for (std::size_t i = 0; i < rounds[0].size(); ++i) {
      const auto& here = rounds[static_cast<std::size_t>(to)][i];
      std::vector<Source> received;
      for (int from = 0; from < c.ranks; ++from) {
        const auto& send =
            rounds[static_cast<std::size_t>(from)][i].send[static_cast<std::size_t>(to)];
        ASSERT_EQ(send.count, here.receive[static_cast<std::size_t>(from)]);
        const auto rows = sorted_rows(c, from);
        ASSERT_LE(send.begin + send.count, std::ssize(rows));
        received.insert(received.end(), rows.begin() + send.begin,
                        rows.begin() + send.begin + send.count);
      }
      ASSERT_LE(here.rows(), most);
      ASSERT_EQ(here.rows(), std::ssize(received));
      ASSERT_EQ(std::ssize(here.offset), owned.count() + 1);
      for (std::int64_t e = 0; e < owned.count(); ++e)
        for (auto n = here.offset[static_cast<std::size_t>(e)];
             n < here.offset[static_cast<std::size_t>(e) + 1]; ++n) {
          const auto& row =
              received[static_cast<std::size_t>(here.place[static_cast<std::size_t>(n)])];
          ASSERT_EQ(row.expert, owned.first + e);
          ASSERT_EQ(here.leaf[static_cast<std::size_t>(n)], row.rank * c.leaves + row.leaf);
          const bool divided =
              c.leaf_rows > 0 && !arrived.empty() && n == 0 && row == arrived.back();
          ASSERT_FALSE(divided);
          arrived.push_back(row);
        }
    }
    // By expert, then rank, then leaf: nothing is lost, nothing comes twice.
    std::vector<Source> all;
    for (auto e = owned.first; e < owned.end; ++e)
      for (int r = 0; r < c.ranks; ++r)
        for (const auto& row : sorted_rows(c, r))
          if (row.expert == e) all.push_back(row);
    ASSERT_EQ(arrived, all);
  }
}

TEST(ExpertRounds, CarryEveryRowToItsExpert) {
  for (std::uint64_t i = 0; i < 300; ++i) {
    Draw draw(1, i);
    const auto c = drawn_counts(draw);
    SCOPED_TRACE(i);

    expect_all_arrive(c, draw.one_of({0, 1, 5, 1000}));
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace trireme::ops
