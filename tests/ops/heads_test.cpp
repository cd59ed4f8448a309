// Every way to share out up to 16 heads.
#include "lib/ops/heads.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace trireme::ops {
namespace {

void for_all(const std::function<void(const Heads&, int size)>& body) {
  for (int query = 1; query <= 16; ++query)
    for (int kv = 1; kv <= query; ++kv) {
      if (query % kv != 0) continue;
      for (int size = 1; size <= query; ++size) {
        SCOPED_TRACE(testing::Message() << query << " heads, " << kv << " kv, " << size);
        body({query, kv, 4}, size);
      }
    }
}

bool holds(const HeadRange& r, std::int64_t head) {
  return head >= r.begin && head < r.begin + r.count;
}

TEST(HeadShare, EveryQueryHeadIsOnOneRank) {
  for_all([](const Heads& h, int size) {
    std::int64_t next = 0;
    for (int d = 0; d < size; ++d) {
      const auto s = head_share(h, d, size);
      EXPECT_EQ(s.query.begin, next);
      EXPECT_GE(s.query.count, h.query / size);
      EXPECT_LE(s.query.count, (h.query + size - 1) / size);
      next += s.query.count;
    }
    EXPECT_EQ(next, h.query);
  });
}

// Query head q reads key/value head q / (H / G).
TEST(HeadShare, HoldsTheKeyValueHeadsThatItsHeadsRead) {
  for_all([](const Heads& h, int size) {
    for (int d = 0; d < size; ++d) {
      const auto s = head_share(h, d, size);
      for (std::int64_t g = 0; g < h.kv; ++g) {
        bool read = false;
        for (std::int64_t q = s.query.begin; q < s.query.begin + s.query.count; ++q)
          read = read || q / (h.query / h.kv) == g;
        EXPECT_EQ(holds(s.kv, g), read) << "rank " << d << ", kv head " << g;
      }
    }
  });
}

// By the rule of the attention kernel, each query head of a group reads what it reads in the model.
TEST(HeadGroups, EveryHeadReadsItsOwn) {
  for_all([](const Heads& h, int size) {
    for (int d = 0; d < size; ++d) {
      const auto s = head_share(h, d, size);
      std::int64_t next = 0;
      for (const auto& g : head_groups(h, s)) {
        EXPECT_EQ(g.query.begin, next);
        for (std::int64_t q = 0; q < g.query.count; ++q) {
          const auto head = s.query.begin + next + q;
          const auto kv = s.kv.begin + g.kv.begin + q * g.kv.count / g.query.count;
          EXPECT_EQ(kv, head / (h.query / h.kv)) << "rank " << d << ", head " << head;
        }
        next += g.query.count;
      }
      EXPECT_EQ(next, s.query.count);
    }
  });
}

// One call serves all wherever the shares are even.
TEST(HeadGroups, OneWhereRanksDivideKeyValueHeads) {
  for_all([](const Heads& h, int size) {
    if (h.kv % size != 0) return;
    for (int d = 0; d < size; ++d) EXPECT_EQ(head_groups(h, head_share(h, d, size)).size(), 1U);
  });
}

}  // namespace
}  // namespace trireme::ops
