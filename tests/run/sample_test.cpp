#include "lib/run/sample.hpp"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(ModelText, IsDueWithEvaluationsOrByItsOwnCount) {
  EvaluateConfig e;
  e.every_steps = 10;
  EXPECT_FALSE(sample_is_due(e, 10, 100)) << "no prompt";
  e.sample_prompt = std::string("a");  // GCC 12 warns of "a" alone (its bug 105651)
  EXPECT_TRUE(sample_is_due(e, 10, 100));
  EXPECT_FALSE(sample_is_due(e, 0, 100));
  e.sample_every = 7;
  EXPECT_FALSE(sample_is_due(e, 10, 100));
  EXPECT_TRUE(sample_is_due(e, 14, 100));
  EXPECT_TRUE(sample_is_due(e, 100, 100)) << "the last step";
}

}  // namespace
}  // namespace trireme
