// Keys that earlier decks had: those of checkpoints are read, and nothing that was asked for is
// dropped in silence.
#include "lib/deck/removed_keys.hpp"

#include <gtest/gtest.h>

#include "tests/deck/sample.hpp"

namespace trireme {
namespace {

// Also where it was set: a checkpoint's deck cannot be mended.
TEST(RemovedKey, IsIgnoredInADeck) {
  const std::string now = dump_deck(parsed(least_deck));
  for (const char* line : {"cuda_graph = false\n", "cuda_graph = true\n"}) {
    const std::string before = now + line;  // of [run]

    EXPECT_EQ(parsed(before), parsed(now));
  }
  const auto next = now.find("\n[run]");
  ASSERT_NE(next, std::string::npos);
  EXPECT_EQ(parsed(std::string(now).insert(next, "ranks_per_file = 1\n")), parsed(now));
}

TEST(RemovedKey, IsRefusedWithTheReasonOtherwise) {
  const std::string why =
      "run.cuda_graph no longer exists, because capturing a CUDA graph for each micro-batch costs "
      "more than it saves: remove the key";

  EXPECT_EQ(refusal_of_addition("[run]\ncuda_graph = 0\n"), "d.toml:6:1: " + why);
  EXPECT_EQ(refusal_of_overrides({"run.cuda_graph=true"}),
            "override 'run.cuda_graph=true': " + why);
  EXPECT_EQ(refusal_of_overrides({"checkpoint.ranks_per_file=1"}),
            "override 'checkpoint.ranks_per_file=1': checkpoint.ranks_per_file no longer exists, "
            "because each rank writes a file of its own: remove the key");
}

TEST(RemovedKey, IsOfItsSectionAlone) {
  EXPECT_EQ(find_removed("train.cuda_graph"), nullptr);
  EXPECT_NE(refusal_of_addition("[train]\ncuda_graph = false\n"), "");
}

}  // namespace
}  // namespace trireme
