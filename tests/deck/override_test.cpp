#include <gtest/gtest.h>

#include <filesystem>

#include "tests/deck/sample.hpp"

namespace trireme {

TEST(Override, ReadsTextByTheKeysType) {
  const Deck d =
      overridden({"train.steps=1e5", "train.batch=10_0", "model.dropout=.1", "parallel.data=auto",
                  "data.path=/x/y.tokens", "model.tied=false", "optimizer.betas=[0.9,0.99]",
                  "optimizer.lr=+1", "run.threads=2", "optimizer.weight_decay=1e3"});  // the most
  EXPECT_EQ(d.train.steps, 100000);
  EXPECT_EQ(d.train.batch, 100);
  EXPECT_EQ(d.train.dropout, 0.1);
  EXPECT_EQ(d.parallel.data, 0);
  EXPECT_EQ(d.data.path, std::vector<std::string>{"/x/y.tokens"});
  EXPECT_FALSE(d.model.tied);
  EXPECT_EQ(d.optimizer.beta2, 0.99);
  EXPECT_EQ(d.optimizer.lr, 1.0);
  EXPECT_EQ(d.run.threads, 2);
  EXPECT_EQ(d.optimizer.weight_decay, 1000);
}

TEST(Override, ArraysAreWhole) {
  const Deck d = overridden({"data.path=[/a, '/b,c' ,\"/d e\",]", "data.weights=[1,2,3]"});
  EXPECT_EQ(d.data.path, (std::vector<std::string>{"/a", "/b,c", "/d e"}));
  EXPECT_EQ(d.data.weights, (std::vector{1.0, 2.0, 3.0}));
  EXPECT_TRUE(overridden({"optimizer.no_decay=[]"}).optimizer.no_decay.empty());
  EXPECT_EQ(overridden({"data.validation=0.5"}).data.validation_fraction, 0.5);
  EXPECT_EQ(overridden({"data.validation=[/v]"}).data.validation_files.size(), 1U);
}

TEST(Override, VariablesStandForValuesOfEveryType) {
  for (const auto& [name, value] : {std::pair{"TRIREME_TEST_N", "7"},
                                    {"TRIREME_TEST_LR", "1e-3"},
                                    {"TRIREME_TEST_YES", "true"},
                                    {"TRIREME_TEST_LIST", "[1, 2]"},
                                    {"TRIREME_TEST_TIME", "01:00:00"},
                                    {"TRIREME_TEST_SHAPE", "linear"},
                                    {"TRIREME_TEST_FILE", "/x/y"}})
    ASSERT_EQ(setenv(name, value, 1), 0);
  const Deck d =
      overridden({"train.seed=${TRIREME_TEST_N}", "train.steps=1${TRIREME_TEST_N}",
                  "optimizer.lr=${TRIREME_TEST_LR}", "zero.detect_freeze=${TRIREME_TEST_YES}",
                  "run.trace_steps=${TRIREME_TEST_LIST}", "data.weights=[${TRIREME_TEST_N}, 2]",
                  "data.path=[/a, /b]", "run.time_limit=${TRIREME_TEST_TIME}",
                  "schedule.shape=${TRIREME_TEST_SHAPE}", "data.validation=${TRIREME_TEST_FILE}"});
  EXPECT_EQ(d.train.seed, 7);
  EXPECT_EQ(d.train.steps, 17);
  EXPECT_EQ(d.optimizer.lr, 1e-3);
  EXPECT_TRUE(d.zero.detect_freeze);
  EXPECT_EQ(d.run.trace_steps, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(d.data.weights, (std::vector{7.0, 2.0}));
  EXPECT_EQ(d.run.time_limit, 3600);
  EXPECT_EQ(d.schedule.shape, ScheduleShape::linear);
  EXPECT_EQ(d.data.validation_files, std::vector<std::string>{"/x/y"});
  EXPECT_NE(refusal_of_overrides({"train.seed=${TRIREME_TEST_NONE}"}).find("TRIREME_TEST_NONE"),
            std::string::npos);
  EXPECT_EQ(refusal_of_overrides({"train.seed=${TRIREME_TEST_FILE}"}),
            "override 'train.seed=${TRIREME_TEST_FILE}': train.seed takes a whole number, not the "
            "text \"/x/y\"");
}

// A number, or a word for one that is known later.
TEST(Override, SomeNumbersHaveAWord) {
  const auto shard = [](const std::string& value) -> std::string {
    const auto zero = overridden({"zero.stage=3", "zero.shard=" + value}).zero;
    return zero.copy_each_node ? "node" : std::to_string(zero.shard);
  };
  EXPECT_EQ(shard("node"), "node");
  EXPECT_EQ(shard("\"node\""), "node");
  EXPECT_EQ(shard("4"), "4");
  EXPECT_EQ(shard("auto"), "0");
  EXPECT_NE(refusal_of_overrides({"zero.shard=nodes"}).find("or \"auto\" or \"node\""),
            std::string::npos);
  EXPECT_NE(refusal_of_overrides({"zero.shard=-1"}).find("\"node\" or 1 to"), std::string::npos);
}

TEST(Override, TheLastOneWins) {
  EXPECT_EQ(overridden({"train.batch=2", "train.batch=4"}).train.batch, 4);
}

TEST(Override, LengthReplacesTheDecksOther) {
  const Deck d = overridden({"train.tokens=1e6"});
  EXPECT_EQ(d.train.tokens, 1000000);
  EXPECT_EQ(d.train.steps, 0);
  EXPECT_NE(refusal_of_overrides({"train.tokens=1e6", "train.steps=5"}).find("keep one"),
            std::string::npos);
}

// The deck's own values agreed before the override.
TEST(Override, ARuleOfTwoKeysNamesTheOverride) {
  const std::string deck = "[model]\nheads = 12\nwidth = 768\n" + std::string(least_deck);
  EXPECT_EQ(refusal(deck, {"model.width=100"}).find("override 'model.width=100': model.heads = 12"),
            0U);
  EXPECT_EQ(refusal(deck, {"model.heads=7"}).find("override 'model.heads=7': model.heads = 7"), 0U);
}

TEST(Override, ErrorsNameTheArgumentAndTheNearestKey) {
  EXPECT_EQ(refusal_of_overrides({"train.stepz=5"}),
            "override 'train.stepz=5': unknown key 'train.stepz' (nearest key: train.steps)");
  EXPECT_EQ(
      refusal_of_overrides({"foo.quux_quux=5"}),
      "override 'foo.quux_quux=5': unknown key 'foo.quux_quux'; `trireme deck` lists all keys");
  EXPECT_EQ(refusal_of_overrides({"lr=1e-3"}),
            "override 'lr=1e-3': unknown key 'lr'; write section.key=value (nearest key: "
            "optimizer.lr)");
  EXPECT_EQ(refusal_of_overrides({"train.steps"}),
            "override 'train.steps': it has no '='; write section.key=value (nearest key: "
            "train.steps)");
  EXPECT_EQ(refusal_of_overrides({"freeze.pattern=x"}),
            "override 'freeze.pattern=x': [[freeze]] rules cannot be set on the command line; "
            "change them in the deck");
  EXPECT_EQ(refusal_of_overrides({"train.steps=1O0"}),
            "override 'train.steps=1O0': train.steps takes a whole number, not the text \"1O0\"");
  EXPECT_EQ(refusal_of_overrides({"train.steps=1__0"}),
            "override 'train.steps=1__0': train.steps takes a whole number, not the text \"1__0\"");
  EXPECT_EQ(refusal_of_overrides({"model.heads=7"}),
            "override 'model.heads=7': model.heads = 7 does not divide model.width = 768; heads "
            "that do: 1, 2, 3, 4, 6, 8, 12, 16; or give model.head_dim");
  EXPECT_NE(refusal_of_overrides({""}).find("override ''"), std::string::npos);
}

}  // namespace trireme
