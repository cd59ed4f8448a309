#include "lib/comm/engine/messages.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "lib/base/error.hpp"

namespace trireme::engine {
namespace {

// Views of memory that is never accessed: an element stands for its address.
constexpr std::uintptr_t dst_at = 1 << 20, src_at = 2 << 20;

View dst_view(std::int64_t n) {
  return {reinterpret_cast<std::byte*>(dst_at), DType::f32, {n}};
}
ConstView src_view(std::int64_t n) {
  return {reinterpret_cast<const std::byte*>(src_at), DType::f32, {n}};
}
std::int64_t element(const std::byte* p, std::uintptr_t base) {
  return static_cast<std::int64_t>((reinterpret_cast<std::uintptr_t>(p) - base) / 4);
}

using AllMessages = std::vector<Messages>;  // by rank

// Messages between two ranks with one tag arrive in order: each must meet one of its length.
void expect_matched(const AllMessages& all) {
  std::map<std::pair<int, int>, std::vector<std::int64_t>> sent, received;
  for (int r = 0; r < static_cast<int>(all.size()); ++r) {
    for (const auto& m : all[static_cast<std::size_t>(r)].out)
      sent[{r, m.peer}].push_back(m.view.count());
    for (const auto& m : all[static_cast<std::size_t>(r)].in)
      received[{m.peer, r}].push_back(m.view.count());
  }
  EXPECT_EQ(sent, received);
}

// One outstanding message a direction, sends that wait for their receiver: still nobody is stuck.
void expect_never_stuck(const AllMessages& all) {
  const auto ranks = all.size();
  std::vector<std::size_t> out(ranks), in(ranks);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < ranks; ++r) {
      if (out[r] == all[r].out.size()) continue;
      const auto to = static_cast<std::size_t>(all[r].out[out[r]].peer);
      if (in[to] == all[to].in.size() || all[to].in[in[to]].peer != static_cast<int>(r)) continue;
      ++out[r];
      ++in[to];
      moved = true;
    }
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    EXPECT_EQ(out[r], all[r].out.size()) << "rank " << r;
    EXPECT_EQ(in[r], all[r].in.size()) << "rank " << r;
  }
}

void for_sizes(const std::function<void(int, std::int64_t, std::int64_t)>& body) {
  for (int size = 1; size <= 9; ++size)
    for (const std::int64_t n : {0, 1, 7, 10})
      for (const std::int64_t chunk : {1, 3, 10, 100}) body(size, n, chunk);
}

TEST(Messages, GatherFillsEveryPartOnce) {
  for_sizes([](int size, std::int64_t n, std::int64_t chunk) {
    SCOPED_TRACE(fmt::format("{} ranks, {} elements, chunks of {}", size, n, chunk));
    AllMessages all;
    for (int r = 0; r < size; ++r) {
      all.push_back(gather_messages(r, size, dst_view(n * size), src_view(n), chunk));
      std::map<std::int64_t, int> from;
      for (const auto& m : all.back().in) {
        EXPECT_LE(m.view.count(), chunk);
        for (std::int64_t i = 0; i < m.view.count(); ++i)
          EXPECT_TRUE(from.emplace(element(m.view.data, dst_at) + i, m.peer).second);
      }
      EXPECT_EQ(static_cast<std::int64_t>(from.size()), n * (size - 1));
      for (const auto& [e, peer] : from) EXPECT_EQ(e / n, peer);
    }
    expect_matched(all);
    expect_never_stuck(all);
  });
}

TEST(Messages, ScatterBringsContributionsInOrder) {
  for_sizes([](int size, std::int64_t n, std::int64_t chunk) {
    SCOPED_TRACE(fmt::format("{} ranks, {} elements, chunks of {}", size, n, chunk));
    AllMessages all;
    for (int r = 0; r < size; ++r) {
      all.push_back(scatter_messages(r, size, dst_view(n), src_view(n * size), chunk));
      std::map<std::int64_t, std::vector<int>> from;
      for (const auto& m : all.back().in)
        for (std::int64_t i = 0; i < m.view.count(); ++i)
          from[element(m.view.data, dst_at) + i].push_back(m.peer);
      std::vector<int> order;
      for (int k = 1; k < size; ++k) order.push_back((r + k) % size);
      if (size > 1) {
        EXPECT_EQ(static_cast<std::int64_t>(from.size()), n);
      }
      for (const auto& [e, peers] : from) EXPECT_EQ(peers, order);
      for (const auto& m : all.back().out) EXPECT_EQ(element(m.view.data, src_at) / n, m.peer);
    }
    expect_matched(all);
    expect_never_stuck(all);
  });
}

TEST(Messages, ExchangesOfAnyLengthsMatch) {
  for (int size = 1; size <= 9; ++size)
    for (const std::int64_t chunk : {1, 4, 100}) {
      AllMessages all;
      const auto length = [](int a, int b) { return (3 * a + 5 * b) % 7 * ((a + b) % 3); };
      for (int r = 0; r < size; ++r) {
        std::vector<View> dst;
        std::vector<ConstView> src;
        for (int other = 0; other < size; ++other) {
          const auto in = length(other, r), out = length(r, other);
          dst.push_back(other != r && in ? dst_view(in) : View());
          src.push_back(other != r && out ? src_view(out) : ConstView());
        }
        all.push_back(exchange_messages(r, dst, src, chunk));
      }
      expect_matched(all);
      expect_never_stuck(all);
    }
}

TEST(Messages, LongViewsTravelInPieces) {
  const std::int64_t n = (std::int64_t{1} << 31) + 5;
  const auto m = send_messages(3, src_view(n), 1 << 20);

  EXPECT_EQ(m.out.size(), 2049U);
  EXPECT_EQ(m.out.back().view.count(), 5);
  EXPECT_EQ(element(m.out.back().view.data, src_at), std::int64_t{1} << 31);
  EXPECT_EQ(receive_messages(3, dst_view(n), 1 << 20).in.size(), 2049U);
}

}  // namespace
}  // namespace trireme::engine
