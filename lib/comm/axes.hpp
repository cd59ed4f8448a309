#pragma once
// The communicators of one rank, one for each purpose. Operations on different communicators may be
// called in different orders on different ranks.
#include "lib/comm/communicator.hpp"
#include "lib/comm/grid.hpp"

namespace trireme {

// A rank's grid coordinates and its communicators. By default, the grid has one rank, which is
// alone in each communicator.
struct Axes {
  Grid grid;
  Grid::At at;
  Communicator world;  // all ranks: decisions, norms
  // Communicators for all-gathers and reduce-scatters among the ranks that share one copy of a
  // stage's weights.
  Communicator gather = world, scatter = world;
  Communicator replicas = world;  // ranks that hold the same shard of different copies
  // Counterparts of gather, scatter and replicas for the parameters of experts, among the ranks
  // that hold the same experts.
  Communicator expert_gather = world, expert_scatter = world, expert_replicas = world;
  // Communicator for the all-to-all of tokens among the ranks that together hold all experts.
  Communicator expert_group = world;
  Communicator seq = world;  // ranks that share the tokens of each sample
  // Communicators for activations to the next pipeline stage and for gradients to the previous
  // stage.
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
// the grid. `shard` is the number of ranks of a stage that share one copy of its parameters. Throws
// Error if `shard` does not divide data * seq.
Axes make_axes(const Communicator& world, const Grid&, int shard);
// How Views are sent between ranks: through host memory with MPI, or directly between devices with
// NCCL.
enum class TransportKind : std::uint8_t { host, device };

// Connects all communicators except `world` to a device transport, which sends Views between
// devices. Collective.
void connect(const Axes&, const transport::OpenDevice&);
// Returns the Axes that make_axes() would create on rank `rank`. Their communicators are pretended:
// they exchange no data.
Axes pretend_axes(const Grid&, int shard, int rank, const CommSettings& = {});

}  // namespace trireme
