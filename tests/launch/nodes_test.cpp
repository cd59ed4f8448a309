#include "lib/launch/nodes.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/message_of.hpp"

namespace trireme::launch {
namespace {

bool has_text(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

class Nodes : public testing::Test {
 protected:
  ~Nodes() override { unsetenv("TRIREME_TEST_NODES"); }
};

TEST_F(Nodes, HaveNoNamesOutsideTests) {
  unsetenv("TRIREME_TEST_NODES");
  EXPECT_EQ(test_node(0), "");
  EXPECT_EQ(nodes_of_ranks(Communicator()), std::vector<int>{0});
}

TEST_F(Nodes, OfATestAreListedByRank) {
  setenv("TRIREME_TEST_NODES", "a,a,b", 1);
  EXPECT_EQ(test_node(0), "a");
  EXPECT_EQ(test_node(1), "a");
  EXPECT_EQ(test_node(2), "b");
  EXPECT_TRUE(has_text(message_of([] { test_node(3); }), "has no name for rank 3"));
  EXPECT_EQ(nodes_of_ranks(Communicator()), std::vector<int>{0});
}

TEST_F(Nodes, HaveNamesThatAreNoPaths) {
  for (const char* bad : {"a,", "a,../b"}) {
    setenv("TRIREME_TEST_NODES", bad, 1);
    EXPECT_TRUE(has_text(message_of([] { test_node(1); }), "has no valid name for rank 1")) << bad;
  }
}

}  // namespace
}  // namespace trireme::launch
