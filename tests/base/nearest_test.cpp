#include "lib/base/nearest.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {

TEST(Nearest, Distance) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("ab", "ba"), 1U);
  EXPECT_EQ(edit_distance("steps", "stepz"), 1U);
}

TEST(Nearest, NamesOnlyWhatIsNear) {
  const std::vector<std::string> names = {"layers", "width", "heads"};
  EXPECT_EQ(nearest_name("layer", names), "layers");
  EXPECT_EQ(nearest_name("haeds", names), "heads");
  EXPECT_EQ(nearest_name("momentum", names), "");
  EXPECT_EQ(nearest_name(std::string(100000, 'x'), names), "");
}

}  // namespace trireme
