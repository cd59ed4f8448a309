#include "lib/ops/expert_rounds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/draw.hpp"

namespace trireme::ops {

using testing::ElementsAre;

// Two ranks, one expert each; rank 0 sends 3 rows to expert 0 and 1 to expert 1, rank 1 sends 2
// and 2. Rounds of 3: owner 0 takes 3 and 2, owner 1 takes 3 in one; chunks are of one row, and the
// last is empty.
TEST(ExpertRounds, OfASmallExample) {
  const ExpertCounts counts{.ranks = 2, .experts = 2, .rows = {3, 1, 2, 2}};

  const auto first = make_expert_rounds(counts, 0, 3, 4),
             second = make_expert_rounds(counts, 1, 3, 4);

  ASSERT_EQ(first.size(), 2U);
  ASSERT_EQ(second.size(), 2U);
  ASSERT_EQ(first[0].chunks.size(), 4U);
  EXPECT_THAT(first[0].chunks[0].send, ElementsAre(RowRange{0, 1}, RowRange{3, 1}));
  EXPECT_THAT(first[0].chunks[2].send, ElementsAre(RowRange{2, 1}, RowRange{4, 0}));
  EXPECT_EQ(first[0].chunks[3].send[0].count, 0);
  EXPECT_THAT(first[0].chunks[1].receive, ElementsAre(1, 0));
  EXPECT_THAT(first[0].chunks[1].place, ElementsAre(0));
  EXPECT_THAT(first[0].chunks[1].offset, ElementsAre(0, 1));
  EXPECT_THAT(first[0].offset, ElementsAre(0, 3));
  EXPECT_THAT(first[1].chunks[0].receive, ElementsAre(0, 1));
  EXPECT_THAT(first[1].chunks[1].receive, ElementsAre(0, 1));
  EXPECT_EQ(first[1].chunks[0].send[0].count, 0);
  EXPECT_EQ(second[0].chunks[0].send[1].count, 0);
  EXPECT_EQ(second[0].chunks[1].send[1], (RowRange{2, 1}));
  EXPECT_EQ(second[0].chunks[2].send[1], (RowRange{3, 1}));
  EXPECT_EQ(second[1].chunks[1].send[0], (RowRange{1, 1}));
  EXPECT_THAT(second[0].chunks[0].receive, ElementsAre(1, 0));
  EXPECT_THAT(second[0].chunks[2].receive, ElementsAre(0, 1));
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

// What all ranks send for one chunk of `to`'s, as it stands there.
static std::vector<Source> received(const ExpertCounts& c,
                                    const std::vector<std::vector<ExpertRound>>& rounds, int to,
                                    std::size_t round, std::size_t chunk) {
  const auto at = [&](int rank) -> const ExpertChunk& {
    return rounds[static_cast<std::size_t>(rank)][round].chunks[chunk];
  };
  std::vector<Source> all;
  for (int from = 0; from < c.ranks; ++from) {
    const auto& send = at(from).send[static_cast<std::size_t>(to)];
    EXPECT_EQ(send.count, at(to).receive[static_cast<std::size_t>(from)]);
    const auto rows = sorted_rows(c, from);
    if (send.count == 0) continue;
    EXPECT_LE(send.begin + send.count, std::ssize(rows));
    all.insert(all.end(), rows.begin() + send.begin, rows.begin() + send.begin + send.count);
  }
  return all;
}

// What all ranks send is carried to where it is received.
static void expect_all_arrive(const ExpertCounts& c, std::int64_t wanted, std::int64_t chunks) {
  std::vector<std::vector<ExpertRound>> rounds;
  for (int r = 0; r < c.ranks; ++r) rounds.push_back(make_expert_rounds(c, r, wanted, chunks));
  for (int to = 0; to < c.ranks; ++to) {
    const auto owned = owned_experts(c.experts, to, c.ranks);
    const auto most = rows_of_round(c, owned, wanted);
    std::vector<Source> arrived;
    ASSERT_EQ(rounds[static_cast<std::size_t>(to)].size(), rounds[0].size());
    for (std::size_t i = 0; i < rounds[0].size(); ++i) {
      const auto& round = rounds[static_cast<std::size_t>(to)][i];
      ASSERT_LE(round.rows(), most);
      ASSERT_EQ(std::ssize(round.chunks), chunks);
      ASSERT_EQ(std::ssize(round.offset), owned.count() + 1);
      std::vector<std::int64_t> count(static_cast<std::size_t>(owned.count()), 0);
      std::size_t row_of_round = 0;
      for (std::size_t k = 0; k < round.chunks.size(); ++k) {
        const auto& chunk = round.chunks[k];
        const auto rows = received(c, rounds, to, i, k);
        ASSERT_EQ(chunk.rows(), std::ssize(rows));
        ASSERT_LE(chunk.rows(), rows_of_chunk(most, chunks));
        ASSERT_EQ(std::ssize(chunk.offset), owned.count() + 1);
        for (std::size_t e = 0; e < count.size(); ++e)
          for (auto n = chunk.offset[e]; n < chunk.offset[e + 1]; ++n, ++row_of_round) {
            const auto& row =
                rows[static_cast<std::size_t>(chunk.place[static_cast<std::size_t>(n)])];
            ASSERT_EQ(row.expert, owned.first + static_cast<std::int64_t>(e));
            ASSERT_EQ(round.leaf[row_of_round], row.rank * c.leaves + row.leaf);
            const bool divided =
                c.leaf_rows > 0 && !arrived.empty() && row_of_round == 0 && row == arrived.back();
            ASSERT_FALSE(divided);
            arrived.push_back(row);
            ++count[e];
          }
      }
      ASSERT_EQ(static_cast<std::size_t>(round.rows()), row_of_round);
      for (std::size_t e = 0; e < count.size(); ++e)
        ASSERT_EQ(round.offset[e + 1] - round.offset[e], count[e]);
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

    expect_all_arrive(c, draw.one_of({0, 1, 5, 1000}), draw.one_of({1, 2, 4}));
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace trireme::ops
