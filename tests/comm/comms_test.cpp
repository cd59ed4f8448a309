#include "lib/comm/comms.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"

namespace trireme {

using testing::ElementsAre;

TEST(Comms, HaveTheRanksBehindEachCommunicator) {
  const Grid grid{2, 3, 2};  // rank 9: stage 1, data 1, seq 1
  const auto axes = pretend_axes(grid, 2, 9);
  const Comms comms(axes, 2);

  EXPECT_EQ(comms.of(*axes.gather.id()), Comm::gather);
  EXPECT_EQ(comms.of(*axes.up.id()), Comm::up);
  EXPECT_EQ(comms.of(*axes.world.id()), Comm::world);
  EXPECT_THAT(comms.members(Comm::gather), ElementsAre(8, 9));
  EXPECT_THAT(comms.members(Comm::scatter), ElementsAre(8, 9));
  EXPECT_THAT(comms.members(Comm::replicas), ElementsAre(7, 9, 11));
  EXPECT_THAT(comms.members(Comm::seq), ElementsAre(8, 9));
  EXPECT_THAT(comms.members(Comm::stages), ElementsAre(3, 9));
  EXPECT_EQ(comms.members(Comm::world).size(), 12U);
}

TEST(Comms, KnowNoOtherAxes) {
  const auto axes = pretend_axes({1, 2, 1}, 2, 0), others = pretend_axes({1, 2, 1}, 2, 1);
  EXPECT_THROW(Comms(axes, 2).of(*others.gather.id()), Error);
}

}  // namespace trireme
