#pragma once
// Which attention heads a rank works on, of those that share out heads (sequence_layout.hpp; Jacobs
// et al. 2023, "DeepSpeed Ulysses").
#include <cmath>
#include <cstdint>
#include <vector>

namespace trireme::ops {

struct Heads {
  std::int64_t query, kv, dim;
  std::int64_t packed() const { return (query + 2 * kv) * dim; }
  std::int64_t kv_of(std::int64_t q) const { return q * kv / query; }
};

// What products of queries and keys become before softmax.
struct Scores {
  double scale = 0;    // what they are multiplied with; 0: 1 / sqrt(dim)
  double softcap = 0;  // c > 0: then c tanh(score / c)
  double scale_of(std::int64_t dim) const {
    return scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(dim));
  }
};

// Heads [begin, begin + count).
struct HeadRange {
  std::int64_t begin, count;
};

// Rank d of `size` owns query heads [d*H/size, (d+1)*H/size) and every key/value head that they
// read, so that one may be on several ranks. size <= heads.query.
struct HeadShare {
  HeadRange query, kv;
};
HeadShare head_share(const Heads&, int rank, int size);

// Query heads of a share that one attention call can serve, with the key/value heads that they
// read: local query head h of the group reads its local key/value head h * kv.count / query.count.
// Begins count from the share's own first heads.
struct HeadGroup {
  HeadRange query, kv;
};
std::vector<HeadGroup> head_groups(const Heads&, const HeadShare&);

}  // namespace trireme::ops
