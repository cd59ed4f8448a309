// The owners of matrices: the plan is compared with a brute-force count over all ranks and
// elements.
#include "lib/shard/matrix_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

using Cost = std::function<double(const Matrix&)>;

// A model on ranks that share all of it, and the plan of its matrices.
struct Planned {
  ModelSpec spec;
  Layout layout;
  int ranks;
  Cost cost;
  MatrixPlan plan;
  std::string name;

  Planned(const ModelConfig& model, const AdapterConfig& adapter, int n, HeadMatrices heads,
          Cost of, std::string text = {}, const std::vector<std::string>& freeze = {})
      : spec(make_spec(model, adapter)), ranks(n), cost(std::move(of)), name(std::move(text)) {
    LayoutInput in{all_units(spec), n, {}, freeze};
    in.as_matrices = updated_as_matrices(spec, {});
    layout = make_layout(spec, in);
    plan = plan_matrices(spec, layout, segments(), heads, n, cost);
  }
  std::vector<std::size_t> segments() const {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < layout.segments.size(); ++i)
      if (layout.segments[i].matrices().count() > 0) all.push_back(i);
    return all;
  }
  // Of an element of a segment.
  int holder(std::size_t segment, std::int64_t element) const {
    return static_cast<int>(element / (layout.segments[segment].elements / ranks));
  }
  std::vector<double> loads() const {
    std::vector<double> all(static_cast<std::size_t>(ranks), 0);
    for (const auto& round : plan.rounds)
      for (const auto& m : round.matrices) all[static_cast<std::size_t>(m.owner)] += m.cost;
    return all;
  }
};

double flops(const Matrix& m) {
  const auto small = static_cast<double>(std::min(m.rows, m.columns));
  return small * small * static_cast<double>(std::max(m.rows, m.columns));
}
// Costs of which no two are equal: a matrix's number in the model decides.
double distinct(const Matrix& m) {
  return flops(m) + 1e-3 * m.param.index() + 1e-7 * static_cast<double>(m.first);
}

// Few large matrices among many small ones.
ModelConfig lopsided() {
  auto c = test::tiny_gpt2();
  c.layers = 3;
  c.ffn_width = 300;
  return completed(c);
}
ModelConfig many_experts() {
  auto c = test::tiny_mixture();
  c.experts = 17;
  return completed(c);
}

void for_each_plan(const std::function<void(const Planned&)>& f) {
  const std::vector<std::tuple<std::string, ModelConfig, AdapterConfig>> models{
      {"gpt2", test::tiny_gpt2(), {}},
      {"lopsided", lopsided(), {}},
      {"qwen", test::tiny_qwen(), {}},
      {"experts", many_experts(), {}},
      {"adapters", test::tiny_llama(), {.rank = 3}}};
  for (const auto& [name, model, adapter] : models)
    for (const int ranks : {1, 2, 3, 4, 7, 16, 150})  // mostly more than matrices in the end
      for (const auto heads : {HeadMatrices::together, HeadMatrices::each})
        for (const Cost& cost : {Cost(flops), Cost(distinct)}) {
          const Planned p(model, adapter, ranks, heads, cost,
                          fmt::format("{} on {} ranks, heads {}", name, ranks, name_of(heads)));
          SCOPED_TRACE(p.name);
          f(p);
        }
}

TEST(MatrixPlan, HasEachMatrixOnceAtItsPlace) {
  for_each_plan([](const Planned& p) {
    std::vector<std::vector<int>> seen;
    for (const auto& s : p.layout.segments)
      seen.emplace_back(static_cast<std::size_t>(s.elements), 0);
    for (const auto& round : p.plan.rounds)
      for (const auto& m : round.matrices) {
        EXPECT_EQ(m.cost, p.cost(m.matrix));
        EXPECT_EQ(m.elements.count(), m.matrix.rows * m.matrix.columns);
        for (auto e = m.elements.begin; e < m.elements.end; ++e)
          ++seen[m.segment].at(static_cast<std::size_t>(e));
        const auto& where = *p.layout.of_param[m.matrix.param.index()];
        EXPECT_EQ(where.segment, m.segment);
        EXPECT_EQ(m.elements.begin - where.slot.begin, m.matrix.first);
      }
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const auto& segment = p.layout.segments[i];
      std::vector<int> expected(seen[i].size(), 0);
      for (const auto& slot : segment.slots)
        if (slot.begin >= segment.matrices_begin)
          std::fill_n(expected.begin() + slot.begin, slot.count, 1);  // not the padding
      EXPECT_EQ(seen[i], expected) << segment.name;
    }
  });
}

TEST(MatrixPlan, RoundsHaveOneMatrixOfAnOwnerAndTheLargestFirst) {
  for_each_plan([](const Planned& p) {
    std::map<int, double> last;
    std::set<int> owners_before;
    for (std::size_t r = 0; r < p.plan.rounds.size(); ++r) {
      std::set<int> owners;
      const auto& round = p.plan.rounds[r];
      for (const auto& m : round.matrices) {
        EXPECT_TRUE(m.owner >= 0 && m.owner < p.ranks);
        EXPECT_TRUE(owners.insert(m.owner).second) << "round " << r << " owner " << m.owner;
        EXPECT_EQ(round.of(m.owner), &m);
        // Matrix r of its owner is preceded by its matrix r - 1, which was not smaller.
        if (r > 0) {
          EXPECT_TRUE(owners_before.contains(m.owner));
          EXPECT_LE(m.cost, last[m.owner]);
        }
        last[m.owner] = m.cost;
      }
      for (int rank = 0; rank < p.ranks; ++rank)
        EXPECT_TRUE(owners.contains(rank) || !round.of(rank));
      owners_before = owners;
    }
  });
}

// Graham's bound of each pair of ranks.
TEST(MatrixPlan, LoadsDifferByAMatrixAtMost) {
  for_each_plan([](const Planned& p) {
    double largest = 0, all = 0;
    for (const auto& round : p.plan.rounds)
      for (const auto& m : round.matrices) largest = std::max(largest, m.cost), all += m.cost;
    const auto loads = p.loads();
    const auto [least, most] = std::ranges::minmax(loads);
    EXPECT_LE(most - least, largest * (1 + 1e-12));
    EXPECT_LE(most, (all / p.ranks + largest) * (1 + 1e-12));
  });
}

// Where no two costs are equal, their order is known: each matrix goes to a rank with the least
// cost so far, and of these to one that holds most of it.
TEST(MatrixPlan, OwnersAreThoseWithTheLeastLoadThatHoldMost) {
  for_each_plan([](const Planned& p) {
    std::vector<OwnedMatrix> all;
    for (const auto& round : p.plan.rounds)
      all.insert(all.end(), round.matrices.begin(), round.matrices.end());
    std::ranges::sort(all, std::greater{}, &OwnedMatrix::cost);
    for (std::size_t i = 1; i < all.size(); ++i)
      if (all[i].cost == all[i - 1].cost) return;  // some are equal
    std::vector<double> loads(static_cast<std::size_t>(p.ranks), 0);
    for (const auto& m : all) {
      std::vector<std::int64_t> held(static_cast<std::size_t>(p.ranks), 0);
      for (auto e = m.elements.begin; e < m.elements.end; ++e)
        ++held[static_cast<std::size_t>(p.holder(m.segment, e))];
      const auto owner = static_cast<std::size_t>(m.owner);
      for (std::size_t rank = 0; rank < loads.size(); ++rank) {
        EXPECT_LE(loads[owner], loads[rank]);
        EXPECT_TRUE(loads[rank] > loads[owner] || held[owner] >= held[rank]);
      }
      loads[owner] += m.cost;
    }
  });
}

// A gate is on rank 0 and the other half on rank 1, whichever is dealt out first.
TEST(MatrixPlan, AMatrixStaysWhereItIs) {
  for (const bool up_first : {false, true}) {
    const Planned p(test::tiny_llama(), {}, 2, HeadMatrices::together,
                    [&](const Matrix& m) { return (m.first > 0) == up_first ? 2.0 : 1.0; }, {},
                    {"*.ffn_in.*", "blocks.0.*"});
    const auto ffn_in = p.spec.blocks[0].ffn_in;
    const auto segment = p.layout.of_param[ffn_in.index()]->segment;
    ASSERT_EQ(p.layout.segments[segment].elements, 2 * 20 * 24);
    const std::vector<std::size_t> one{segment};

    const auto plan = plan_matrices(p.spec, p.layout, one, HeadMatrices::together, 2, p.cost);

    ASSERT_EQ(plan.rounds.size(), 1U);
    for (const auto& m : plan.rounds[0].matrices) EXPECT_EQ(m.owner, m.matrix.first > 0 ? 1 : 0);
    EXPECT_EQ(plan.rounds[0].matrices.size(), 2U);
  }
}

std::int64_t in_blocks_of_32(std::int64_t n) {
  return n == 0 ? 0 : ((n - 1) / 32 + 1) * 32;
}

// No rank needs more, and one needs as much.
TEST(MatrixPlan, SizesAreThoseOfTheRankThatNeedsMost) {
  for_each_plan([](const Planned& p) {
    MatrixSizes most;
    for (const auto& round : p.plan.rounds) {
      std::vector<std::int64_t> in_round(static_cast<std::size_t>(p.ranks), 0);
      for (const auto& m : round.matrices) {
        std::vector<std::int64_t> held(static_cast<std::size_t>(p.ranks), 0);
        for (auto e = m.elements.begin; e < m.elements.end; ++e)
          ++held[static_cast<std::size_t>(p.holder(m.segment, e))];
        for (std::size_t rank = 0; rank < held.size(); ++rank) {
          in_round[rank] += in_blocks_of_32(held[rank]);
          most.sent = std::max(most.sent, held[rank]);
        }
        most.matrix = std::max(most.matrix, m.matrix.count());
      }
      most.held = std::max(most.held, std::ranges::max(in_round));
    }
    EXPECT_EQ(p.plan.sizes.matrix, most.matrix);
    EXPECT_EQ(p.plan.sizes.held, most.held);
    EXPECT_EQ(p.plan.sizes.sent, most.sent);
  });
}

TEST(MatrixPlan, OfNothingIsEmpty) {
  const Planned p(test::tiny_gpt2(), {}, 3, HeadMatrices::together, flops);
  const auto plan = plan_matrices(p.spec, p.layout, {}, HeadMatrices::together, 3, flops);
  EXPECT_TRUE(plan.rounds.empty());
  EXPECT_EQ(plan.sizes.matrix + plan.sizes.held + plan.sizes.sent, 0);
}

}  // namespace
}  // namespace trireme
