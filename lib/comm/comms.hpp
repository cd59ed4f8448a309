#pragma once
// Names of the communicators in Axes, and the world ranks that each communicator connects.
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lib/comm/axes.hpp"

namespace trireme {

// Name of a communicator in Axes.
enum class Comm : std::uint8_t {
  gather,
  scatter,
  replicas,
  seq,
  down,
  up,
  stages,
  world,
  experts,  // these exist if Grid::expert > 1
  expert_gather,
  expert_scatter,
  expert_replicas
};
inline constexpr int comm_count = 12;

// The names and the members of one rank's communicators. They are computed without communication,
// so plans can use them with pretended communicators, which send nothing.
class Comms {
 public:
  // `shard` must be the argument that was passed to make_axes().
  Comms(const Axes&, int shard);

  // Returns a communicator's name. Throws Error if the communicator does not belong to these Axes.
  Comm of(const engine::Context&) const;
  // Returns the world ranks of a communicator's members, indexed by rank in the communicator.
  std::span<const int> members(Comm n) const { return members_[static_cast<std::size_t>(n)]; }

 private:
  std::map<const engine::Context*, Comm> names_;
  std::array<std::vector<int>, comm_count> members_;
};

}  // namespace trireme
