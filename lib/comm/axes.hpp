#pragma once
// The communicators of one rank, one for each purpose. Operations on different communicators need
// no common order.
#include "lib/comm/communicator.hpp"
#include "lib/comm/grid.hpp"

namespace trireme {

// A rank's grid coordinates and its communicators. By default, there is one rank, alone in each
// communicator.
struct Axes {
  Grid grid;
  Grid::At at;
  Communicator world;  // all ranks: decisions, norms
  // All-gather and reduce-scatter among the ranks that share one copy of a stage's weights.
  Communicator gather = world, scatter = world;
  Communicator replicas = world;  // ranks that hold the same shard of different copies
  // The same three for the parameters of experts, among the ranks that hold the same experts.
  Communicator expert_gather = world, expert_scatter = world, expert_replicas = world;
  // All-to-all of tokens among the ranks that together hold all experts.
  Communicator expert_group = world;
  Communicator seq = world;  // ranks that share the tokens of each sample
  // Activations to the next pipeline stage and gradients to the previous one.
  Communicator down = world, up = world;
  Communicator stages = world;  // tied embeddings, among pipeline stages

  // Bytes that this rank has sent so far, by axis of the grid.
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

// Splits `world` into the communicators of the grid. Collective. `world` must have as many ranks as
// the grid. `shard` ranks of a stage share one copy of its parameters; it must divide data * seq,
// or Error is thrown.
Axes make_axes(const Communicator& world, const Grid&, int shard);
// The path of Views between ranks: through host memory with MPI, or between devices with NCCL.
enum class TransportKind : std::uint8_t { host, device };

// Connects all communicators except `world` so that Views are sent between devices. Collective.
void connect(const Axes&, const transport::OpenDevice&);
// Returns the Axes that make_axes() would give rank `rank`, with pretended communicators.
Axes pretend_axes(const Grid&, int shard, int rank, const CommSettings& = {});

}  // namespace trireme
