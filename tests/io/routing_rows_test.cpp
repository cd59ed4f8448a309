#include "lib/io/routing_rows.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/message_of.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {

static RoutingRow row(std::int64_t step) {
  return {step, 64 * step, 1.25, 0.5, 3, {{1, 4, 16.5, 40}, {2, 0, 16.5, 33}}};
}

TEST(RoutingRows, AreReadAsWritten) {
  const ScratchFolder folder;
  const auto path = folder.path() / "routing.csv";
  std::ofstream(path) << routing_columns << '\n'
                      << to_csv(row(1)) << '\n'
                      << to_csv(row(2)) << '\n';

  const auto rows = read_routing(path);

  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(to_csv(rows[1]), "2,128,1.25,0.5,3,1 2,4 0,16.5 16.5,40 33");
  EXPECT_EQ(rows[1].loads[1].most, 33);
  EXPECT_DOUBLE_EQ(rows[1].least(), 0);
  EXPECT_DOUBLE_EQ(rows[1].most(), 40 / 16.5);
  EXPECT_TRUE(read_routing(folder.path() / "none.csv").empty());
}

TEST(RoutingRows, SayWhatIsWrong) {
  EXPECT_FALSE(is_routing_row("1,2,3"));
  EXPECT_FALSE(is_routing_row("2,128,1.25,0.5,3,1 2,4 0,16.5,40 33"));
  EXPECT_FALSE(is_routing_row("2,128,x,0.5,3,1 2,4 0,16.5 16.5,40 33"));
  EXPECT_EQ(message_of([] { parse_routing_row("1,2"); }),
            "a row of routing must have the columns " + std::string(routing_columns));
}

}  // namespace trireme
