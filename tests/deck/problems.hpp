#pragma once
// A deck without problems, and what a test expects of a deck with one problem.
#include <gtest/gtest.h>

#include <string>

#include "lib/deck/check.hpp"
#include "tests/deck/sample.hpp"

namespace trireme {

inline Deck sound() {
  return parsed(least_deck);
}

// The only problem of a deck, by its first key and its words.
inline void expect_problem(const Deck& deck, const std::string& key, const std::string& words) {
  const auto problems = check_deck(deck);
  ASSERT_EQ(problems.size(), 1U) << key;
  EXPECT_EQ(problems[0].keys.at(0), key);
  EXPECT_NE(problems[0].message.find(words), std::string::npos) << problems[0].message;
}

}  // namespace trireme
