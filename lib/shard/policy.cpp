#include "lib/shard/policy.hpp"

#include <numeric>

#include "lib/base/error.hpp"

namespace trireme {

ZeroPolicy zero_policy(const ZeroConfig& z, const Grid& grid, DType compute, DType reduce) {
  ZeroPolicy p;
  const auto group = z.shard > 0 ? static_cast<int>(z.shard) : grid.places();
  switch (z.stage) {
    case 0:
      break;
    case 1:
      p.sharers = group;
      break;
    case 2:
      p.sharers = group;
      p.reduce_every = ZeroCadence::microbatch;
      break;
    case 3:
      p.sharers = group;
      p.gather_every = z.gather;
      p.reduce_every = z.reduce;
      break;
    default:
      fail("zero.stage = {} is not 0, 1, 2 or 3", z.stage);
  }
  p.prefetch = static_cast<int>(z.prefetch);
  p.scatters = static_cast<int>(z.scatters);
  const bool narrower = reduce == DType::bf16 && wide(compute) == DType::f32;
  p.reduce = narrower ? DType::bf16 : wide(compute);
  return p;
}

std::int64_t shard_ranks_within_node(const Grid& grid, std::int64_t ranks_of_node) {
  return std::gcd(std::int64_t{grid.places()}, ranks_of_node);
}

int shard_ranks(const ZeroConfig& z, const Grid& grid) {
  return zero_policy(z, grid, DType::f32, DType::f32).sharers;
}

}  // namespace trireme
