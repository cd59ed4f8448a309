#pragma once
// One rank's communicators along the axes of the grid, one for each purpose, so that operations of
// one need not be ordered with another's. Default: one rank, alone in all of them.
#include "lib/comm/communicator.hpp"
#include "lib/comm/grid.hpp"

namespace trireme {

struct Axes {
  Grid grid;
  Grid::At at;
  Communicator world;  // decisions, norms
  Communicator gather = world,
               scatter = world;   // the ranks that share one copy of a stage's weights
  Communicator replicas = world;  // the ranks that hold equal shards
  // The same of the ranks that hold the same experts, and the ranks that hold all experts.
  Communicator expert_gather = world, expert_scatter = world, expert_replicas = world;
  Communicator expert_group = world;
  Communicator seq = world;               // the ranks that share samples' positions
  Communicator down = world, up = world;  // the stages: activations, gradients
  Communicator stages = world;            // the stages: tied tables

  // Payload that this rank sent so far, in bytes, by axis.
  struct Traffic {
    std::int64_t shard = 0, seq = 0, pipe = 0, expert = 0;
    std::int64_t all() const { return shard + seq + pipe + expert; }
    bool operator==(const Traffic&) const = default;
    Traffic operator-(const Traffic& t) const {
      return {shard - t.shard, seq - t.seq, pipe - t.pipe, expert - t.expert};
    }
  };
  Traffic traffic() const;
};

// Splits `world`, whose size is the grid's, by the grid; `shard` ranks of data x seq share one copy
// (a divisor of data * seq). Collective.
Axes make_axes(const Communicator& world, const Grid&, int shard);
// What carries Views between ranks: messages between host memories (MPI), or between devices
// (NCCL).
enum class TransportKind : std::uint8_t { host, device };

// Collective: all Views of these axes are sent between devices.
void connect(const Axes&, const transport::OpenDevice&);
// As make_axes, for rank `rank` of a pretended job.
Axes pretend_axes(const Grid&, int shard, int rank, const CommSettings& = {});

}  // namespace trireme
