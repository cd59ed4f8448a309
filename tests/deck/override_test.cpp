#include <gtest/gtest.h>

#include <filesystem>

#include "tests/deck/sample.hpp"

namespace trireme {

TEST(Override, ReadsTextByTheKeysType) {
  const Deck d = overridden({"train.steps=1e5", "train.batch=10_0", "model.dropout=.1",
                             "parallel.data=auto", "data.path=/x/y.tokens", "model.tied=false",
                             "optimizer.betas=[0.9,0.99]", "optimizer.lr=+1", "run.threads=2"});
  EXPECT_EQ(d.train.steps, 100000);
  EXPECT_EQ(d.train.batch, 100);
  EXPECT_EQ(d.model.dropout, 0.1);
  EXPECT_EQ(d.parallel.data, 0);
  EXPECT_EQ(d.data.path, std::vector<std::string>{"/x/y.tokens"});
  EXPECT_FALSE(d.model.tied);
  EXPECT_EQ(d.optimizer.beta2, 0.99);
  EXPECT_EQ(d.optimizer.lr, 1.0);
  EXPECT_EQ(d.run.threads, 2);
}

TEST(Override, ArraysAreWhole) {
  const Deck d = overridden({"data.path=[/a, '/b,c' ,\"/d e\",]", "data.weights=[1,2,3]"});
  EXPECT_EQ(d.data.path, (std::vector<std::string>{"/a", "/b,c", "/d e"}));
  EXPECT_EQ(d.data.weights, (std::vector{1.0, 2.0, 3.0}));
  EXPECT_TRUE(overridden({"optimizer.no_decay=[]"}).optimizer.no_decay.empty());
  EXPECT_EQ(overridden({"data.validation=0.5"}).data.validation_fraction, 0.5);
  EXPECT_EQ(overridden({"data.validation=[/v]"}).data.validation_files.size(), 1U);
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

TEST(Override, ErrorsNameTheArgumentAndTheNearestKey) {
  EXPECT_EQ(
      refusal_of_overrides({"train.stepz=5"}),
      "override 'train.stepz=5': 'train.stepz' is not a key; write section.key=value (nearest "
      "key: train.steps)");
  EXPECT_EQ(refusal_of_overrides({"lr=1e-3"}),
            "override 'lr=1e-3': 'lr' is not a key; write section.key=value (nearest key: "
            "optimizer.lr)");
  EXPECT_EQ(refusal_of_overrides({"train.steps"}),
            "override 'train.steps': it has no '='; write section.key=value (nearest key: "
            "train.steps)");
  EXPECT_EQ(refusal_of_overrides({"freeze.pattern=x"}),
            "override 'freeze.pattern=x': [[freeze]] is a list of rules; change it in the deck");
  EXPECT_EQ(refusal_of_overrides({"train.steps=1O0"}),
            "override 'train.steps=1O0': train.steps takes a whole number, not the text \"1O0\"");
  EXPECT_EQ(refusal_of_overrides({"train.steps=1__0"}),
            "override 'train.steps=1__0': train.steps takes a whole number, not the text \"1__0\"");
  EXPECT_EQ(refusal_of_overrides({"model.heads=7"}),
            "override 'model.heads=7': model.heads = 7 does not divide model.width = 768; heads "
            "that do: 1, 2, 3, 4, 6, 8, 12, 16");
  EXPECT_NE(refusal_of_overrides({""}).find("override ''"), std::string::npos);
}

}  // namespace trireme
