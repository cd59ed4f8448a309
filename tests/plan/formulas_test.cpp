// What the formulas say is what a plan counts, to the byte, on every grid; and in plain cases it is
// what the textbook says.
#include "tests/support/formulas.hpp"

#include <gtest/gtest.h>

#include "kernels/open/open.hpp"
#include "lib/plan/plan.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/parity_cases.hpp"

namespace trireme {

static std::size_t peak(const Account& a, MemoryKind k) {
  return a.peak[static_cast<std::size_t>(k)];
}

static void expect_formulas(const PlanInput& in, const std::string& backend, int rank) {
  const auto plan = plan_rank(in, dry_target({backend, 1, false}), rank);
  auto step = rank_step(in.setup, in.train, in.grid, rank);
  if (backend == "ref") step.key_tile = 1;

  const auto sent = step_traffic(step);
  EXPECT_EQ(sent.shard, plan.step_traffic.shard) << "rank " << rank;
  EXPECT_EQ(sent.seq, plan.step_traffic.seq) << "rank " << rank;
  EXPECT_EQ(sent.pipe, plan.step_traffic.pipe) << "rank " << rank;
  EXPECT_EQ(sent.expert, plan.step_traffic.expert) << "rank " << rank;
  if (in.setup.freeze.empty() && in.setup.products == ProductType::compute &&
      in.setup.optimizer.name != OptimizerKind::shampoo) {
    EXPECT_DOUBLE_EQ(step_flops(step), plan.step_flops) << "rank " << rank;
  }
  const auto held = state_bytes(step);
  EXPECT_EQ(held.weights, peak(plan.account, MemoryKind::weights)) << "rank " << rank;
  EXPECT_EQ(held.optimizer, peak(plan.account, MemoryKind::optimizer)) << "rank " << rank;
  EXPECT_EQ(held.gradients, peak(plan.account, MemoryKind::gradients)) << "rank " << rank;
  EXPECT_EQ(held.gathered, peak(plan.account, MemoryKind::gathered)) << "rank " << rank;
  EXPECT_EQ(plan.races, std::vector<std::string>{}) << "rank " << rank;
}

static void expect_formulas(test::ParityCase c) {
  SCOPED_TRACE(test::name_of(c));
  for (int rank = 0; rank < c.grid.ranks(); ++rank)
    expect_formulas(test::plan_input(c), c.backend, rank);
}

// No formula here is of the passes before a step's pass with gradients; what they send and take is
// counted in a run (tests/parallel/counted.hpp).
static std::vector<test::ParityCase> in_one_pass(std::vector<test::ParityCase> cases) {
  for (auto& c : cases) c.objective = Objective::tokens;
  return cases;
}

// A third of them, because a plan takes a tenth of a second.
static std::vector<test::ParityCase> pairwise(int ranks) {
  return drawn(in_one_pass(test::pairwise_cases(ranks)), 3);
}

class FormulasOnRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, FormulasOnRanks, testing::Values(1, 2, 4, 8));

TEST_P(FormulasOnRanks, EqualThePlansOfAllPairs) {
  for (const auto& c : pairwise(GetParam())) expect_formulas(c);
}

// f32 and bf16, computed in and on the wire.
TEST_P(FormulasOnRanks, EqualThePlansInOtherTypes) {
  for (auto c : in_one_pass(test::fenced_cases(GetParam()))) {
    c.optimizer = OptimizerKind::adamw;
    expect_formulas(c);
    c.backend = "host";
    c.compute = DType::bf16;
    c.reduce = DType::bf16;
    expect_formulas(c);
  }
}

// Weights in fp8, which are sent in fp8 or as they are. No formula is of the FLOPs of products in
// fp8, whose sums run over whole groups.
TEST_P(FormulasOnRanks, EqualThePlansOfWeightsInFp8) {
  int number = 0;
  for (auto c : in_one_pass(test::fenced_cases(GetParam()))) {
    if (number++ % 3 > 0) continue;  // a plan takes a tenth of a second
    const bool wide = number % 2 == 0;
    c.products = ProductType::fp8;
    c.backend = "host";
    c.compute = c.reduce = DType::bf16;
    c.zero.gather_type = GatherType::fp8;
    c.width = wide ? 144 : 24;
    c.fp8.head = !wide;
    c.fp8.skip_first = wide ? 1 : 0;
    expect_formulas(c);
  }
}

// What is frozen is neither sent nor kept, and nothing runs backward behind the first that trains.
TEST_P(FormulasOnRanks, EqualThePlansOfFrozenModels) {
  const std::vector<std::vector<const char*>> frozen{
      {"embedding.weight"},
      {"*.attention_norm.*", "*.qkv.*"},
      {"embedding.weight", "positions.weight", "blocks.0.*", "blocks.1.*"},
      {"embedding.weight", "positions.weight", "blocks.0.*norm*", "blocks.0.qkv*"},
      {"embedding.weight", "positions.weight", "blocks.?.*"},
      {"*.bias"},
      {"final_norm.*", "blocks.7.*"}};
  const auto cases = pairwise(GetParam());
  for (std::size_t i = 0; i < 2 * frozen.size(); ++i) {
    auto c = cases[i % cases.size()];
    c.flavour = "gpt2";
    c.grid.expert = 1;
    for (const char* pattern : frozen[i % frozen.size()])
      c.freeze.push_back({pattern, 0, 0, ThawMoments::fresh});
    expect_formulas(c);
  }
}

// Ranks that share experts out, as many as the grid and its copies allow.
static std::vector<int> expert_ranks(const test::ParityCase& c) {
  const int places = c.grid.places(), shard = shard_ranks(c.zero, c.grid);
  std::vector<int> all;
  for (int e = 1; e <= 5; ++e)
    if (places % e == 0 && (shard % e == 0 || e % shard == 0)) all.push_back(e);
  return all;
}

class MixturesOnRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, MixturesOnRanks, testing::Values(1, 2, 3, 4, 6, 8));

// 5 or 6 experts, which not all numbers of ranks divide.
TEST_P(MixturesOnRanks, EqualThePlans) {
  for (auto c : pairwise(GetParam())) {
    if (c.flavour != "gpt2" && c.flavour != "llama" && c.flavour != "gpt_oss") continue;
    if (c.flavour != "gpt_oss") c.flavour = c.flavour == "gpt2" ? "mixture" : "sigmoid";
    for (const int ranks : expert_ranks(c)) {
      c.grid.expert = ranks;
      expect_formulas(c);
    }
  }
}

// Without the last, nothing but the experts of others trains on some ranks.
TEST_P(MixturesOnRanks, EqualThePlansOfFrozenModels) {
  const std::vector<std::vector<const char*>> frozen{
      {"*.router.*"},
      {"*.experts.*"},
      {"*.experts.1.*"},
      {"*.experts.?.ffn_in.*", "*norm*"},
      {"embedding.weight", "blocks.?.*norm*", "blocks.?.qkv.*", "blocks.?.projection.*"},
      {"embedding.weight", "blocks.?.*norm*", "blocks.?.qkv.*", "blocks.?.projection.*",
       "*.router.*", "*.experts.0.*"}};
  const auto cases = pairwise(GetParam());
  for (std::size_t i = 0; i < 2 * frozen.size(); ++i) {
    auto c = cases[i % cases.size()];
    c.flavour = i % 2 == 0 ? "sigmoid" : i < frozen.size() ? "mixture" : "gpt_oss";
    c.grid.expert = expert_ranks(c).back();
    for (const char* pattern : frozen[i % frozen.size()])
      c.freeze.push_back({pattern, 0, 0, ThawMoments::fresh});
    expect_formulas(c);
  }
}

// Rounds so small that there are several: what later ones bring comes once more.
TEST_P(MixturesOnRanks, EqualThePlansInSeveralRounds) {
  for (auto c : pairwise(GetParam())) {
    if (c.flavour != "mixture" && c.flavour != "sigmoid" && c.flavour != "gpt_oss") continue;
    c.grid.expert = expert_ranks(c).back();
    SCOPED_TRACE(test::name_of(c));
    auto in = test::plan_input(c);
    for (const std::int64_t rows : {9, 40}) {
      in.setup.expert_tokens = rows;
      for (int rank = 0; rank < c.grid.places(); ++rank) expect_formulas(in, c.backend, rank);
    }
  }
}

// Widths of which every parameter fills its slot, so that nothing is padded.
static PlanInput even_model(std::int64_t layers, const Grid& grid) {
  PlanInput in;
  auto& m = in.setup.model;
  m.layers = layers;
  m.width = 256;
  m.heads = 8;
  m.vocab = 256;
  m.max_context = 64;
  m = completed(m);
  in.setup.zero.stage = 3;
  in.grid = grid;
  in.train.microbatch = 2;
  in.train.batch = 2 * grid.data;
  return in;
}

static Axes::Traffic sent(const PlanInput& in, int rank = 0) {
  return step_traffic(rank_step(in.setup, in.train, in.grid, rank));
}

static std::int64_t block_parameters(const PlanInput& in) {
  const auto spec = make_spec(in.setup.model);
  std::int64_t n = 0;
  for (const auto& p : spec.params)
    if (p.unit == spec.blocks[0].unit) n += p.shape.count();
  return n;
}

// Two gathers and a scatter.
TEST(Formulas, ABlockMoreSendsThreeTimesItsParameters) {
  for (const int n : {2, 4, 8}) {
    const auto four = even_model(4, {1, n, 1}), five = even_model(5, {1, n, 1});

    const auto more = sent(five).shard - sent(four).shard;

    EXPECT_EQ(more, 4 * 3 * block_parameters(four) * (n - 1) / n) << n;
  }
}

TEST(Formulas, HeadsThatDivideSendFourTimesTheirTokensEachWay) {
  for (const int seq : {2, 4, 8}) {
    const auto in = even_model(3, {1, 1, seq});
    const auto t = in.train.microbatch * in.setup.model.max_context / seq;

    EXPECT_EQ(sent(in).seq, 3 * 2 * 4 * (4 * t * in.setup.model.width * (seq - 1) / seq)) << seq;
  }
}

TEST(Formulas, AStageSendsEveryMicrobatchDownAndUp) {
  auto in = even_model(8, {4, 1, 1});
  in.train.batch = 10;
  in.setup.model.tied = false;
  const auto one_way =
      5 * in.train.microbatch * in.setup.model.max_context * in.setup.model.width * 4;

  EXPECT_EQ(sent(in, 0).pipe, one_way);
  EXPECT_EQ(sent(in, 1).pipe, 2 * one_way);
  EXPECT_EQ(sent(in, 3).pipe, one_way);
}

// In f32: masters, gradients and two moments of a share of the parameters; then whole units.
TEST(Formulas, AShareOfTheStateAndAFewUnits) {
  auto in = even_model(6, {1, 4, 1});
  in.setup.model.tied = false;
  const auto spec = make_spec(in.setup.model);
  const auto block = static_cast<std::size_t>(4 * block_parameters(in));
  const auto share = static_cast<std::size_t>(spec.parameter_count());  // 4 bytes by 4 ranks

  const auto held = state_bytes(rank_step(in.setup, in.train, in.grid, 0));

  EXPECT_EQ(held.weights, share);
  EXPECT_EQ(held.optimizer, 2 * share);
  EXPECT_EQ(held.gathered, 2 * block);           // one at work, one asked for
  EXPECT_EQ(held.gradients, share + 2 * block);  // one being made, one on its way
}

}  // namespace trireme
