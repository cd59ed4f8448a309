#include "lib/tokenizer/ids_tokenizer.hpp"

#include <gmock/gmock.h>

#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(IdsTokenizer, NumbersAreIds) {
  const auto ids = ids_tokenizer(100, "a checkpoint");
  EXPECT_THAT(ids->encode("1 2,\n 99"), ElementsAre(1, 2, 99));
  EXPECT_EQ(ids->decode(std::vector<std::int32_t>{1, 2, 99}), "1 2 99");
}

TEST(IdsTokenizer, WhatIsNoIdIsNamed) {
  const auto ids = ids_tokenizer(100, "a checkpoint");
  for (const auto* wrong : {"1 100", "1 -1", "1 2x", "words", "1.5"}) {
    const auto said = message_of([&] { ids->encode(wrong); });
    EXPECT_THAT(said, HasSubstr("a checkpoint has no tokenizer, and ")) << wrong;
    EXPECT_THAT(said, HasSubstr("not an id below 100")) << wrong;
  }
  EXPECT_THROW(ids->encode(" "), Error);
}

}  // namespace
}  // namespace trireme
