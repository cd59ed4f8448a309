#include "lib/run/stop_texts.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {
namespace {

using Stops = std::vector<std::string>;

TEST(StopTexts, TheFirstInTheTextCounts) {
  EXPECT_EQ(stop_at("a b c", Stops{"c", "b"}), 2U);
  EXPECT_EQ(stop_at("a b c", Stops{"d"}), std::string_view::npos);
  EXPECT_EQ(stop_at("a b c", Stops{}), std::string_view::npos);
}

TEST(StopTexts, WhatMayBecomeOneIsHeldBack) {
  EXPECT_EQ(stable_bytes("one two", Stops{}), 7U);
  EXPECT_EQ(stable_bytes("one EN", Stops{"END"}), 4U);
  EXPECT_EQ(stable_bytes("one E", Stops{"END", "xx"}), 4U);
  EXPECT_EQ(stable_bytes("one ENd", Stops{"END"}), 7U) << "it became another text";
  EXPECT_EQ(stable_bytes("one END two", Stops{"END"}), 4U);
  EXPECT_EQ(stable_bytes("aa", Stops{"aab"}), 0U);
  EXPECT_EQ(stable_bytes("aaa", Stops{"aab"}), 1U);
}

// The bytes of a character come one token at a time; each stands as U+FFFD until the last is there.
TEST(StopTexts, ACharacterIsShownWhenItIsWhole) {
  const std::string unfinished = "\uFFFD";
  EXPECT_EQ(stable_bytes("caf" + unfinished, Stops{}), 3U);
  EXPECT_EQ(stable_bytes("x" + unfinished + unfinished + unfinished, Stops{}), 1U);
  EXPECT_EQ(stable_bytes("caf\u00e9", Stops{}), 5U);
  // One that no token mends is shown with what comes behind it.
  EXPECT_EQ(stable_bytes("caf" + unfinished + "!", Stops{}), 7U);
  EXPECT_EQ(stable_bytes("EN" + unfinished, Stops{"END"}), 2U);
  // A stop text may go on in it, and even end there.
  EXPECT_EQ(stable_bytes("a caf" + unfinished, Stops{"caf\u00e9"}), 2U);
  EXPECT_EQ(stable_bytes("a caf" + unfinished + unfinished, Stops{"caf\u65e5!"}), 2U);
  EXPECT_EQ(stable_bytes("a caf" + unfinished, Stops{"caf\xc3"}), 2U);
}

// However a text grows, what was shown stays, and all of it is shown in the end.
TEST(StopTexts, WhatWasShownIsABeginningOfAllThatFollows) {
  const std::string whole = "the sentence ends: a\u00e9b STO STOOP STOP here";
  const Stops stops{"STOP", "here"};
  const auto end = stop_at(whole, stops);
  std::size_t shown = 0;
  for (std::size_t n = 0; n <= whole.size(); ++n) {
    const auto size = stable_bytes(std::string_view(whole).substr(0, n), stops);
    EXPECT_LE(size, end);
    shown = std::max(shown, size);
  }
  EXPECT_EQ(shown, end);
}

}  // namespace
}  // namespace trireme
