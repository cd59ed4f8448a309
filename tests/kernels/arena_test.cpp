#include "kernels/arena.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/support/message_of.hpp"

namespace trireme {

static constexpr std::size_t all = std::size_t{1} << 30;

TEST(Arena, RoundsUpAndKeepsTheAccount) {
  Arena arena(all, all);

  const auto a = arena.take(1, MemoryKind::weights, Memory::device);
  const auto b = arena.take(300, MemoryKind::saved, Memory::device);
  arena.give(a.offset, a.bytes, MemoryKind::weights, Memory::device, {});

  EXPECT_EQ(b.bytes, 512U);
  EXPECT_EQ(arena.account().live_all, 512U);
  EXPECT_EQ(arena.account().peak_all, 768U);
  EXPECT_EQ(arena.account().peak[static_cast<int>(MemoryKind::weights)], 256U);
  EXPECT_EQ(arena.account().reserved, 768U);
}

TEST(Arena, ReusesTheSmallestHoleThatFits) {
  Arena arena(all, all);
  std::vector<Arena::Taken> t;
  for (std::size_t n : {1024, 256, 512, 256, 256})
    t.push_back(arena.take(n, MemoryKind::saved, Memory::device));
  arena.give(t[0].offset, t[0].bytes, MemoryKind::saved, Memory::device, {});
  arena.give(t[2].offset, t[2].bytes, MemoryKind::saved, Memory::device, {});

  const auto again = arena.take(500, MemoryKind::saved, Memory::device);

  EXPECT_EQ(again.offset, t[2].offset);
}

TEST(Arena, NeighboursGrowTogether) {
  Arena arena(all, all);
  const auto a = arena.take(256, MemoryKind::saved, Memory::device);
  const auto b = arena.take(256, MemoryKind::saved, Memory::device);
  const auto c = arena.take(256, MemoryKind::saved, Memory::device);
  arena.take(256, MemoryKind::saved, Memory::device);
  for (const auto& t : {a, c, b})
    arena.give(t.offset, t.bytes, MemoryKind::saved, Memory::device, {});

  EXPECT_EQ(arena.take(768, MemoryKind::saved, Memory::device).offset, a.offset);
  EXPECT_EQ(arena.account().reserved, 1024U);
}

TEST(Arena, HandsOnTheLastEventsOfEveryQueue) {
  Arena arena(all, all);
  const auto a = arena.take(256, MemoryKind::saved, Memory::device);
  const auto b = arena.take(256, MemoryKind::saved, Memory::device);
  const std::vector<Event> of_a{{Queue::compute, 5}, {Queue::gather, 2}}, of_b{{Queue::compute, 3}};
  arena.give(a.offset, a.bytes, MemoryKind::saved, Memory::device, of_a);
  arena.give(b.offset, b.bytes, MemoryKind::saved, Memory::device, of_b);

  const auto merged = arena.take(512, MemoryKind::saved, Memory::device);

  EXPECT_EQ(merged.last[static_cast<int>(Queue::compute)], 5U);
  EXPECT_EQ(merged.last[static_cast<int>(Queue::gather)], 2U);
}

TEST(Arena, SaysWhatIsHeldWhenNothingIsLeft) {
  Arena arena(1024, 1024);
  arena.take(700, MemoryKind::optimizer, Memory::device);

  const auto said = message_of([&] { arena.take(512, MemoryKind::saved, Memory::device); });
  EXPECT_NE(said.find("optimizer"), std::string::npos) << said;
}

// Otherwise equal steps would reserve more, now and then, than the first of them.
TEST(Arena, PlacesBlocksHoweverFarItOnceGrew) {
  Arena young(all, all), old(all, all);
  const auto grown = old.take(all / 2, MemoryKind::transient, Memory::device);
  old.give(grown.offset, grown.bytes, MemoryKind::transient, Memory::device, {});
  std::vector<Arena::Taken> held;
  std::uint64_t state = 2;
  const auto next = [&](std::uint64_t n) { return (state = mix64(state)) % n; };
  for (int i = 0; i < 5000; ++i) {
    if (held.empty() || next(2) == 0) {
      const auto bytes = next(5000);
      held.push_back(young.take(bytes, MemoryKind::transient, Memory::device));
      ASSERT_EQ(old.take(bytes, MemoryKind::transient, Memory::device).offset, held.back().offset);
    } else {
      const auto it = held.begin() + static_cast<std::ptrdiff_t>(next(held.size()));
      for (auto* arena : {&young, &old})
        arena->give(it->offset, it->bytes, MemoryKind::transient, Memory::device, {});
      held.erase(it);
    }
  }
  EXPECT_LT(young.account().reserved, all / 2);
  EXPECT_EQ(old.account().reserved, all / 2);
}

// Blocks never overlap, whatever the order, and everything given back becomes one range again.
TEST(Arena, SurvivesRandomTraffic) {
  Arena arena(all, all);
  std::map<std::size_t, std::size_t> held;  // offset -> end
  std::uint64_t state = 1;
  const auto next = [&](std::uint64_t n) { return (state = mix64(state)) % n; };
  for (int i = 0; i < 20000; ++i) {
    if (held.empty() || next(5) < 3) {
      const auto t = arena.take(next(5000), MemoryKind::transient, Memory::device);
      const auto after = held.lower_bound(t.offset);
      const bool clear_above = after == held.end() || t.offset + t.bytes <= after->first;
      const bool clear_below = after == held.begin() || std::prev(after)->second <= t.offset;
      ASSERT_TRUE(clear_above && clear_below);
      held[t.offset] = t.offset + t.bytes;
    } else {
      const auto it = std::next(held.begin(), static_cast<std::ptrdiff_t>(next(held.size())));
      arena.give(it->first, it->second - it->first, MemoryKind::transient, Memory::device, {});
      held.erase(it);
    }
  }
  for (const auto& [offset, end] : held)
    arena.give(offset, end - offset, MemoryKind::transient, Memory::device, {});

  EXPECT_EQ(arena.account().live_all, 0U);
  EXPECT_EQ(arena.take(arena.account().reserved, MemoryKind::saved, Memory::device).offset, 0U);
}

}  // namespace trireme
