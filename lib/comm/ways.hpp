#pragma once
// The communicators of Axes by name, and which ranks of the job each connects.
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lib/comm/axes.hpp"

namespace trireme {

enum class Way : std::uint8_t { gather, scatter, replicas, seq, down, up, stages, world };
inline constexpr int way_count = 8;

// Of one rank, from arithmetic alone: also of a pretended one.
class Ways {
 public:
  // `shard` as in make_axes.
  Ways(const Axes&, int shard);

  // Error for a communicator of other Axes.
  Way of(const engine::Context&) const;
  // Ranks of the job, by rank in the communicator.
  std::span<const int> members(Way w) const { return members_[static_cast<std::size_t>(w)]; }

 private:
  std::map<const engine::Context*, Way> way_;
  std::array<std::vector<int>, way_count> members_;
};

}  // namespace trireme
