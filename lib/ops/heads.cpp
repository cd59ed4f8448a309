#include "lib/ops/heads.hpp"

namespace trireme::ops {

HeadShare head_share(const Heads& h, int rank, int size) {
  const auto begin = rank * h.query / size, end = (rank + 1) * h.query / size;
  const auto kv_begin = h.kv_of(begin), kv_end = h.kv_of(end - 1) + 1;
  return {{begin, end - begin}, {kv_begin, kv_end - kv_begin}};
}

std::vector<HeadGroup> head_groups(const Heads& h, const HeadShare& s) {
  const auto local_kv = [&](std::int64_t q) { return h.kv_of(s.query.begin + q) - s.kv.begin; };
  bool even = true;
  for (std::int64_t q = 0; q < s.query.count; ++q)
    even = even && local_kv(q) == q * s.kv.count / s.query.count;
  if (even) return {{{0, s.query.count}, {0, s.kv.count}}};
  std::vector<HeadGroup> groups;  // one per key-value head
  for (std::int64_t q = 0; q < s.query.count; ++q) {
    if (groups.empty() || groups.back().kv.begin != local_kv(q))
      groups.push_back({{q, 0}, {local_kv(q), 1}});
    ++groups.back().query.count;
  }
  return groups;
}

}  // namespace trireme::ops
