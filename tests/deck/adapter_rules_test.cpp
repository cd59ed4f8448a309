// Rules about the adapters of experts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/deck/check.hpp"
#include "lib/model/spec.hpp"
#include "tests/deck/sample.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;

Deck with_adapters(std::vector<std::string> patterns) {
  Deck d = parsed(least_deck);
  d.model = test::tiny_mixture();
  d.data.context = d.model.max_context;
  d.init_from = "/base";
  d.adapter.rank = 2;
  d.adapter.patterns = std::move(patterns);
  return d;
}

TEST(AdapterRules, ExpertsHaveAdaptersOnlyIfAPatternNamesThem) {
  const auto products = [](const Deck& d) { return adapters_text(make_spec(d.model, d.adapter)); };
  EXPECT_EQ(products(with_adapters({"*"})),  // its first block has one MLP
            "qkv.q, qkv.k, qkv.v, projection, ffn_in.gate, ffn_in.up, ffn_out, "
            "shared_expert.ffn_in.gate, shared_expert.ffn_in.up and shared_expert.ffn_out");
  EXPECT_EQ(products(with_adapters({"*.experts.*.ffn_out"})), "experts.ffn_out");
  EXPECT_EQ(products(with_adapters({"*.qkv.q", "*.experts.*.ffn_in.*"})),
            "qkv.q, experts.ffn_in.gate and experts.ffn_in.up");
}

TEST(AdapterRules, ExpertsHaveAdaptersForTheSameProducts) {
  const auto d = with_adapters({"*.experts.1.*"});
  EXPECT_THAT(message_of<Error>([&] { make_spec(d.model, d.adapter); }),
              HasSubstr("all experts of a block need adapters for the same products"));
}

TEST(AdapterRules, ExpertsHaveNoDropout) {
  auto d = with_adapters({"*"});
  d.adapter.dropout = 0.1;
  EXPECT_TRUE(check_deck(d).empty());
  d.adapter.patterns = {"*", "*.experts.*"};
  const auto problems = check_deck(d);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].keys, (std::vector<std::string>{"adapter.dropout", "adapter.patterns"}));
  EXPECT_THAT(problems[0].message, HasSubstr("does not support adapters of experts"));
}

}  // namespace
}  // namespace trireme
