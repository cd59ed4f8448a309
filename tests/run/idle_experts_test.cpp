#include "lib/run/idle_experts.hpp"

#include <gtest/gtest.h>

namespace trireme {

TEST(IdleExperts, AreWarnedOfOnceAfterManyStepsInARow) {
  IdleExperts idle;
  const Routing one_idle{.layers = {3}, .loads = {{5, 0, 2}}},
      none{.layers = {3}, .loads = {{5, 1, 1}}};
  for (int step = 1; step < IdleExperts::patience; ++step)
    EXPECT_EQ(idle.after(one_idle, Balance::bias), "");
  EXPECT_EQ(idle.after(none, Balance::bias), "");
  for (int step = 1; step < IdleExperts::patience; ++step)
    EXPECT_EQ(idle.after(one_idle, Balance::bias), "");

  const auto text = idle.after(one_idle, Balance::bias);

  EXPECT_TRUE(text.starts_with(
      "1 expert received no tokens in 100 steps, the first is expert 1 of block 3"))
      << text;
  EXPECT_TRUE(text.ends_with("raise train.balance_rate")) << text;
  EXPECT_EQ(idle.after(one_idle, Balance::bias), "");
}

}  // namespace trireme
