#include "lib/comm/axes.hpp"

#include "lib/base/error.hpp"

namespace trireme {

template <class Split>
static Axes split_axes(const Communicator& world, const Grid& grid, int shard, const Split& split) {
  // grid_problems() has told the user.
  expect(shard >= 1 && grid.places() % shard == 0, "a shard group divides the ranks of a stage");
  const int rank = world.rank();
  Axes a{.grid = grid, .at = grid.at(rank), .world = world};
  a.gather = split(shard_group(grid, shard, rank));
  a.scatter = a.gather.duplicate();
  a.replicas = split(replica_group(grid, shard, rank));
  if (grid.expert > 1) {
    expect(
        grid.places() % grid.expert == 0 && (shard % grid.expert == 0 || grid.expert % shard == 0),
        "expert groups divide a stage, and shard groups or the other way round");
    a.expert_group = split(expert_group(grid, rank));
    a.expert_gather = split(expert_shard_group(grid, shard, rank));
    a.expert_scatter = a.expert_gather.duplicate();
    a.expert_replicas = split(expert_replica_group(grid, shard, rank));
  } else {
    a.expert_group = Communicator();
    a.expert_gather = a.gather;
    a.expert_scatter = a.scatter;
    a.expert_replicas = a.replicas;
  }
  a.seq = split(seq_group(grid, rank));
  a.down = split(pipe_group(grid, rank));
  a.up = a.down.duplicate();
  a.stages = a.down.duplicate();
  return a;
}

Axes::Traffic Axes::traffic() const {
  Traffic t{gather.bytes_sent() + scatter.bytes_sent() + replicas.bytes_sent(), seq.bytes_sent(),
            down.bytes_sent() + up.bytes_sent() + stages.bytes_sent()};
  if (grid.expert == 1) return t;
  t.shard +=
      expert_gather.bytes_sent() + expert_scatter.bytes_sent() + expert_replicas.bytes_sent();
  t.expert = expert_group.bytes_sent();
  return t;
}

Axes make_axes(const Communicator& world, const Grid& grid, int shard) {
  require(grid.ranks() == world.size(),
          "the grid {} has {} ranks, but the job has {}. Start as many ranks as the grid has",
          describe(grid), grid.ranks(), world.size());
  return split_axes(world, grid, shard,
                    [&](const Group& g) { return world.split(g.color, g.key); });
}

void connect(const Axes& a, const transport::OpenDevice& open) {
  for (const auto* c : {&a.gather, &a.scatter, &a.replicas, &a.seq, &a.down, &a.up, &a.stages})
    c->connect(open);
  if (a.grid.expert > 1)
    for (const auto* c : {&a.expert_group, &a.expert_gather, &a.expert_scatter, &a.expert_replicas})
      c->connect(open);
}

Axes pretend_axes(const Grid& grid, int shard, int rank, const CommSettings& settings) {
  const auto world = Communicator::pretend(rank, grid.ranks(), settings);
  return split_axes(world, grid, shard,
                    [&](const Group& g) { return world.pretend_split(g.key, g.size); });
}

}  // namespace trireme
