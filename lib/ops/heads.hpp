#pragma once
// The division of attention heads among ranks (Jacobs et al. 2023, "DeepSpeed Ulysses").
#include <cmath>
#include <cstdint>
#include <vector>

namespace trireme::ops {

// Numbers of query heads and key-value heads, and the number of channels per head.
struct Heads {
  std::int64_t query, kv, dim;
  // Returns the number of channels in a packed qkv row.
  std::int64_t packed() const { return (query + 2 * kv) * dim; }
  // Returns the key-value head that query head `q` reads.
  std::int64_t kv_of(std::int64_t q) const { return q * kv / query; }
};

// How products of queries and keys are converted to the input of softmax.
struct Scores {
  double scale = 0;    // factor; 0 means 1 / sqrt(dim)
  double softcap = 0;  // c > 0: scores become c tanh(score / c); 0 means off
  double scale_of(std::int64_t dim) const {
    return scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(dim));
  }
};

// A range [begin, begin + count) of heads.
struct HeadRange {
  std::int64_t begin, count;
};

// The heads of one rank. Of H query heads, rank d of `size` ranks has heads [d*H/size,
// (d+1)*H/size), and all key-value heads that these read. Several ranks may therefore have the same
// key-value head. Requires size <= heads.query.
struct HeadShare {
  HeadRange query, kv;
};
HeadShare head_share(const Heads&, int rank, int size);

// Query heads of a HeadShare that one attention call can process, and the key-value heads that they
// read. Within a group, query head h reads key-value head h * kv.count / query.count. Ranges are
// relative to the share's first heads.
struct HeadGroup {
  HeadRange query, kv;
};
// Returns one group if one attention call can process all heads of the share. Otherwise returns one
// group per key-value head.
std::vector<HeadGroup> head_groups(const Heads&, const HeadShare&);

}  // namespace trireme::ops
