#include "lib/shard/trainability.hpp"
#include "lib/base/pattern.hpp"

#include <gtest/gtest.h>

#include "tests/support/scratch.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

// The first block's MLP is a segment of its own.
class TrainabilityTest : public testing::Test {
 protected:
  TrainabilityTest()
      : trainability(spec, layout, std::vector<std::uint8_t>(spec.params.size(), 1)) {
    trainability.apply();
  }
  void request(std::string_view pattern, bool trained, ThawMoments moments = ThawMoments::fresh) {
    for (std::size_t i = 0; i < spec.params.size(); ++i)
      if (matches(pattern, spec.params[i].name))
        trainability.request(ParamId::at(i), trained, moments);
  }
  std::size_t segment_of(ParamId p) const { return layout.of_param[p.index()]->segment; }

  ModelSpec spec = make_spec(test::tiny_gpt2());
  Layout layout = make_layout(spec, {all_units(spec), 1, {}, {"blocks.0.ffn*"}});
  Trainability trainability;
};

}  // namespace

TEST_F(TrainabilityTest, NothingIsTrainedBeforeItIsApplied) {
  const Trainability fresh(spec, layout, std::vector<std::uint8_t>(spec.params.size(), 1));

  EXPECT_EQ(std::ranges::count(fresh.trained(), 1), 0);
  EXPECT_EQ(fresh.changes().size(), layout.segments.size());
}

TEST_F(TrainabilityTest, ChangesAreOfWholeSegments) {
  const auto& block = spec.blocks[0];
  request("blocks.0.ffn*", false, ThawMoments::keep);

  const auto changes = trainability.changes();

  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].segment, segment_of(block.ffn_in));
  EXPECT_FALSE(changes[0].trained);
  EXPECT_EQ(changes[0].moments, ThawMoments::keep);
  EXPECT_TRUE(trainability.trained()[block.ffn_in.index()]);  // a request so far
  trainability.apply();
  EXPECT_FALSE(trainability.trains(layout.segments[segment_of(block.ffn_in)]));
  EXPECT_TRUE(trainability.trains(layout.segments[segment_of(block.qkv)]));
  EXPECT_TRUE(trainability.changes().empty());
}

TEST_F(TrainabilityTest, WhatFrozeItDecidesAboutItsMoments) {
  request("blocks.0.ffn*", false, ThawMoments::keep);
  trainability.apply();
  request("blocks.0.ffn*", true, ThawMoments::fresh);

  const auto changes = trainability.changes();

  ASSERT_EQ(changes.size(), 1U);
  EXPECT_TRUE(changes[0].trained);
  EXPECT_EQ(changes[0].moments, ThawMoments::keep);
}

TEST_F(TrainabilityTest, AWishThatSplitsASegmentIsAnErrorThatNamesBoth) {
  trainability.request(spec.blocks[0].ffn_in, false, ThawMoments::fresh);

  const auto said = message_of<Error>([&] { trainability.changes(); });

  EXPECT_NE(said.find("blocks.0.ffn_in.weight"), std::string::npos) << said;
  EXPECT_NE(said.find("they are in the same segment"), std::string::npos) << said;
}

TEST_F(TrainabilityTest, OpenWishesAreNamed) {
  trainability.require_applied();
  request("blocks.0.ffn*", false);
  const auto said = message_of<Error>([&] { trainability.require_applied(); });
  EXPECT_NE(said.find("blocks.0.ffn_out.bias"), std::string::npos) << said;
  EXPECT_EQ(said.find("qkv"), std::string::npos) << said;

  request("blocks.0.ffn*", true);  // taken back
  EXPECT_NO_THROW(trainability.require_applied());
  request("blocks.0.ffn*", false);
  trainability.apply();
  EXPECT_NO_THROW(trainability.require_applied());
}

}  // namespace trireme
