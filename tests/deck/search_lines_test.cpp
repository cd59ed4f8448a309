// The overrides that a search prints, put behind the deck that it searched for, give what it
// simulated, whatever the deck sets.
#include <gtest/gtest.h>

#include <sstream>

#include "lib/deck/resolve.hpp"
#include "tests/deck/sample.hpp"

namespace trireme {
namespace {

using Words = std::vector<std::string>;
constexpr std::int64_t vocab = 300;
constexpr int ranks = 4;

PlanInput planned(const Deck& d) {
  return plan_input_of(d, DType::f32, TransportKind::host, {}, DocumentWeights::absent);
}

PlanInput pasted(Words overrides, const std::string& line) {
  std::istringstream words(line);
  for (std::string word; words >> word;) overrides.push_back(word);
  return planned(resolve(overridden(overrides), {.ranks = ranks, .vocab = vocab}));
}

void expect_same(const PlanInput& a, const PlanInput& b) {
  const auto policy = [](const PlanInput& in) {
    return zero_policy(in.setup.zero, in.grid, DType::f32, DType::f32);
  };
  EXPECT_EQ(a.grid, b.grid);
  EXPECT_EQ(policy(a), policy(b));
  EXPECT_EQ(a.train.microbatch, b.train.microbatch);
  EXPECT_EQ(a.setup.model, b.setup.model);
  EXPECT_EQ(a.setup.stage_layers, b.setup.stage_layers);
  EXPECT_EQ(a.setup.schedule, b.setup.schedule);
  EXPECT_EQ(a.setup.chunks, b.setup.chunks);
  EXPECT_EQ(a.setup.chunk_tokens, b.setup.chunk_tokens);
  EXPECT_EQ(a.setup.zero.gather_type, b.setup.zero.gather_type);
  EXPECT_EQ(a.setup.zero.detect_freeze, b.setup.zero.detect_freeze);
  if (a.grid.expert > 1) {
    EXPECT_EQ(a.setup.expert_tokens, b.setup.expert_tokens);
  }
}

class SearchLines : public testing::TestWithParam<Words> {};

TEST_P(SearchLines, GiveWhatWasSimulated) {
  Words all{"model.layers=4", "model.width=16", "model.heads=4", "model.context=8",
            "train.batch=8"};
  all.insert(all.end(), GetParam().begin(), GetParam().end());
  const auto deck = overridden(all);
  const auto set = set_by(deck);
  const auto in = planned(to_search(deck, vocab));
  const RunChoice* last = nullptr;
  const auto choices = choices_of(in, ranks, 8);
  for (const auto& c : choices) {
    const auto line = overrides_of(c, set);
    SCOPED_TRACE(line);
    expect_same(pasted(all, line), input_of(in, c));
    const auto without_experts = [](Grid g) {
      g.expert = 1;
      return g;
    };
    if (last && without_experts(last->grid) == without_experts(c.grid)) {
      const auto changed = overrides_of(*last, set) + " " + changed_overrides(*last, c, set);
      SCOPED_TRACE(changed);
      expect_same(pasted(all, changed), input_of(in, c));
    }
    last = &c;
  }
  EXPECT_GT(choices.size(), 50U);
}

const Words decks[] = {
    {},
    {"parallel.pipe=2", "parallel.schedule=interleaved", "parallel.chunks=2",
     "parallel.stage_layers=[1,1,1,1]", "train.microbatch=2"},
    {"parallel.pipe=4", "parallel.stage_layers=[1,1,1,1]", "parallel.schedule=zero-bubble"},
    {"zero.stage=3", "zero.gather=step", "zero.reduce=step", "zero.shard=2", "zero.prefetch=3"},
    {"zero.stage=2", "zero.shard=node", "zero.detect_freeze=false", "model.recompute=block"},
    {"zero.stage=3", "zero.reduce=step", "model.recompute=block", "model.offload=inputs"},
    {"model.experts=4", "model.experts_per_token=2", "model.activation=swiglu", "parallel.data=4",
     "parallel.expert=2", "parallel.expert_tokens=16"},
    {"precision.compute=bf16", "precision.products=fp8", "model.context=64", "zero.stage=1",
     "zero.gather_type=fp8"},
    {"run.exactness=invariant", "run.exact_chunk=2", "model.chunk_tokens=4", "parallel.seq=2"}};
INSTANTIATE_TEST_SUITE_P(Decks, SearchLines, testing::ValuesIn(decks));

}  // namespace
}  // namespace trireme
