#include "kernels/guards.hpp"

#include <gmock/gmock.h>

#include <array>

#include "kernels/open/open.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Optional;

TEST(Guards, ABlockEndsWhereItsPagesDo) {
  const auto p = guarded_place(1000, 4096);
  EXPECT_EQ(p.begin, 3072U);  // on a granule
  EXPECT_EQ(p.end, 4072U);
  EXPECT_EQ(p.pages, 4096U);
  EXPECT_EQ(p.watched_from, 0U);
  const auto whole = guarded_place(8192, 4096);
  EXPECT_EQ(whole.begin, 0U);
  EXPECT_EQ(whole.end, whole.pages);
  const auto little = guarded_place(0, 1 << 21);
  EXPECT_EQ(little.begin, (1U << 21) - 256);
  EXPECT_EQ(little.begin - little.watched_from, 4096U);
}

TEST(Guards, TheyTellWhereSomethingWasWritten) {
  std::array<std::byte, 16> before, behind;
  before.fill(known_byte);
  behind.fill(known_byte);
  const auto damage = [&] { return guard_damage(before, behind, 100, MemoryKind::saved); };
  EXPECT_EQ(damage(), std::nullopt);
  before[13] = std::byte{0};
  EXPECT_THAT(damage(), Optional(HasSubstr("3 bytes before a block of 100 bytes of saved")));
  behind[4] = std::byte{0};
  EXPECT_THAT(damage(), Optional(HasSubstr("4 bytes after the end of a block of 100 bytes")));
}

class GuardsDeathTest : public testing::TestWithParam<const char*> {
 protected:
  GuardsDeathTest() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  std::unique_ptr<Backend> open(Guards guards) {
    return open_backend({.name = GetParam(), .guards = guards});
  }
  // Fills `written` floats of a block of `floats`, as a kernel that is wrong would.
  static void write(Backend& b, const Block& block, std::int64_t written) {
    b.put(Queue::compute, kernel::Fill{.dst = {block.data, DType::f32, {written}}, .value = 1});
  }
  static Block take(Backend& b, std::size_t floats) {
    return b.take(floats * sizeof(float), MemoryKind::saved, Queue::compute);
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, GuardsDeathTest, testing::Values("host", "ref"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(GuardsDeathTest, OneElementPastABlockOfWholeGranules) {
  const auto b = open(Guards::on);
  const auto block = take(*b, 1024);
  write(*b, block, 1024);
  EXPECT_DEATH(write(*b, block, 1025), "");
  b->give(block, {});
}

TEST_P(GuardsDeathTest, OneElementReadPastABlock) {
  const auto b = open(Guards::on);
  const auto from = take(*b, 64), to = take(*b, 128);
  const auto copy = [&](std::int64_t n) {
    b->put(Queue::compute, kernel::Copy{.dst = {to.data, DType::f32, {n}},
                                        .src = ConstView{from.data, DType::f32, {n}}});
  };
  copy(64);
  EXPECT_DEATH(copy(65), "");
}

TEST_P(GuardsDeathTest, OneElementPastAnyOtherBlockShowsWhenItIsGivenBack) {
  const auto b = open(Guards::on);
  const auto block = take(*b, 250);
  write(*b, block, 250);
  EXPECT_DEATH(
      {
        write(*b, block, 251);
        b->give(block, {});
      },
      "0 bytes after the end of a block of 1000 bytes of saved");
  b->give(block, {});
}

TEST_P(GuardsDeathTest, OneByteBeforeABlock) {
  const auto b = open(Guards::on);
  const auto block = take(*b, 250);
  EXPECT_DEATH(
      {
        block.data[-1] = std::byte{1};
        b->give(block, {});
      },
      "1 bytes before a block of 1000 bytes of saved");
}

TEST_P(GuardsDeathTest, WhatWasGivenBack) {
  const auto b = open(Guards::on);
  const auto block = take(*b, 250);
  b->give(block, {});
  EXPECT_DEATH(write(*b, block, 1), "");
}

// Nothing of this shows without guards, and the account is the same.
TEST_P(GuardsDeathTest, AreOffUnlessAskedFor) {
  const auto with = open(Guards::on), without = open(Guards::off);
  for (auto* b : {with.get(), without.get()}) {
    const auto first = take(*b, 250), second = take(*b, 1024), third = take(*b, 7);
    b->give(second, {});
    const auto fourth = take(*b, 300);
    for (const auto& block : {first, third, fourth}) b->give(block, {});
  }
  EXPECT_EQ(with->account().peak, without->account().peak);
  EXPECT_EQ(with->account().reserved, without->account().reserved);
  const auto block = take(*without, 250), next = take(*without, 250);
  write(*without, block, 251);
  without->give(block, {});
  without->give(next, {});
}

TEST(Guards, FencedHasItsOwn) {
  EXPECT_THROW(open_backend({.name = "fenced", .guards = Guards::on}), Error);
}

}  // namespace
}  // namespace trireme
