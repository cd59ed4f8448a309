#include "lib/comm/ways.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"

namespace trireme {

using testing::ElementsAre;

TEST(Ways, NameTheRanksBehindEachCommunicator) {
  const Grid grid{2, 3, 2};  // rank 9: stage 1, data 1, seq 1
  const auto axes = pretend_axes(grid, 2, 9);
  const Ways ways(axes, 2);

  EXPECT_EQ(ways.of(*axes.gather.id()), Way::gather);
  EXPECT_EQ(ways.of(*axes.up.id()), Way::up);
  EXPECT_EQ(ways.of(*axes.world.id()), Way::world);
  EXPECT_THAT(ways.members(Way::gather), ElementsAre(8, 9));
  EXPECT_THAT(ways.members(Way::scatter), ElementsAre(8, 9));
  EXPECT_THAT(ways.members(Way::replicas), ElementsAre(7, 9, 11));
  EXPECT_THAT(ways.members(Way::seq), ElementsAre(8, 9));
  EXPECT_THAT(ways.members(Way::stages), ElementsAre(3, 9));
  EXPECT_EQ(ways.members(Way::world).size(), 12U);
}

TEST(Ways, KnowNoOtherAxes) {
  const auto axes = pretend_axes({1, 2, 1}, 2, 0), others = pretend_axes({1, 2, 1}, 2, 1);
  EXPECT_THROW(Ways(axes, 2).of(*others.gather.id()), Error);
}

}  // namespace trireme
