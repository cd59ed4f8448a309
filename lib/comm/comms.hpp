#pragma once
// The communicators of Axes by name, and which ranks of the job each connects.
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lib/comm/axes.hpp"

namespace trireme {

enum class Comm : std::uint8_t {
  gather,
  scatter,
  replicas,
  seq,
  down,
  up,
  stages,
  world,
  experts,  // this and the following where Grid::expert is above 1
  expert_gather,
  expert_scatter,
  expert_replicas
};
inline constexpr int comm_count = 12;

// Of one rank, from arithmetic alone: also of a pretended one.
class Comms {
 public:
  // `shard` as in make_axes.
  Comms(const Axes&, int shard);

  // Error for a communicator of other Axes.
  Comm of(const engine::Context&) const;
  // Ranks of the job, by rank in the communicator.
  std::span<const int> members(Comm n) const { return members_[static_cast<std::size_t>(n)]; }

 private:
  std::map<const engine::Context*, Comm> names_;
  std::array<std::vector<int>, comm_count> members_;
};

}  // namespace trireme
