#pragma once
// Names of the communicators in Axes, and the ranks of the job that each one connects.
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lib/comm/axes.hpp"

namespace trireme {

// The members of Axes that are communicators.
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

// The communicators of one rank by name. It is computed without communication, so the rank may be
// pretended.
class Comms {
 public:
  // `shard` is the argument of make_axes().
  Comms(const Axes&, int shard);

  // Returns a communicator's name. Throws Error if it does not belong to these Axes.
  Comm of(const engine::Context&) const;
  // Returns the ranks of the job that the communicator connects, by their rank in the communicator.
  std::span<const int> members(Comm n) const { return members_[static_cast<std::size_t>(n)]; }

 private:
  std::map<const engine::Context*, Comm> names_;
  std::array<std::vector<int>, comm_count> members_;
};

}  // namespace trireme
