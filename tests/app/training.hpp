#pragma once
// A folder with a text, its tokens and the deck of tests/program, where the program is run from the
// outside.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/process.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/source_dir.hpp"

namespace trireme {

class Training : public testing::Test {
 protected:
  Training() {
    std::string text;
    for (int i = 0; i < 200; ++i) text += "the quick brown fox jumps over the lazy dog, ";
    folder.write("text.txt", text);
    folder.write("deck.toml", contents_of(test::source_dir() / "tests/program/deck.toml"));
    const auto made = here("$TRIREME tokenize text.txt --output text.tokens");
    EXPECT_EQ(made.code, 0) << made.err;
  }
  test::Finished here(const std::string& command, int limit = 60) {
    return test::run(folder.path(), command, limit);
  }
  ScratchFolder folder;
};

}  // namespace trireme
