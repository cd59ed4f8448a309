// Keys that earlier decks had: those of checkpoints are read, and nothing that was asked for is
// dropped in silence.
#include "lib/deck/former.hpp"

#include <gtest/gtest.h>

#include "tests/deck/sample.hpp"

namespace trireme {
namespace {

// Also where it was true: a checkpoint's deck cannot be mended.
TEST(Former, IsReadOverInADeck) {
  for (const char* line : {"cuda_graph = false\n", "cuda_graph = true\n"}) {
    const std::string before = dump_deck(parsed(least_deck)) + line;  // of [run]

    EXPECT_EQ(parsed(before), parsed(dump_deck(parsed(least_deck))));
  }
}

TEST(Former, IsRefusedWithTheReasonOtherwise) {
  const std::string why =
      "run.cuda_graph is gone: a graph would be captured anew for each microbatch, which costs "
      "more than the launches that it saves; leave it out";

  EXPECT_EQ(refusal_of_addition("[run]\ncuda_graph = 0\n"), "d.toml:6:1: " + why);
  EXPECT_EQ(refusal_of_overrides({"run.cuda_graph=true"}),
            "override 'run.cuda_graph=true': " + why);
}

TEST(Former, IsOfItsSectionAlone) {
  EXPECT_EQ(find_former("train.cuda_graph"), nullptr);
  EXPECT_NE(refusal_of_addition("[train]\ncuda_graph = false\n"), "");
}

}  // namespace
}  // namespace trireme
