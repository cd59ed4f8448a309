#include "lib/comm/comms.hpp"

#include <numeric>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme {

template <class GroupOf>
static std::vector<int> members_of(const Grid& grid, int rank, const GroupOf& group) {
  const Group mine = group(rank);
  std::vector<int> all(static_cast<std::size_t>(mine.size), -1);
  for (int r = 0; r < grid.ranks(); ++r)
    if (const Group g = group(r); g.color == mine.color) all[static_cast<std::size_t>(g.key)] = r;
  return all;
}

Comms::Comms(const Axes& a, int shard) {
  using enum Comm;
  const std::pair<const Communicator*, Comm> named[] = {
      {&a.gather, gather}, {&a.scatter, scatter}, {&a.replicas, replicas}, {&a.seq, seq},
      {&a.down, down},     {&a.up, up},           {&a.stages, stages},     {&a.world, world}};
  for (const auto& [c, name] : named) names_[c->id()] = name;
  const auto set = [&](std::initializer_list<Comm> names, const auto& group) {
    const auto all = members_of(a.grid, a.grid.rank(a.at), group);
    for (const auto n : names) members_[static_cast<std::size_t>(n)] = all;
  };
  set({gather, scatter}, [&](int r) { return shard_group(a.grid, shard, r); });
  set({replicas}, [&](int r) { return replica_group(a.grid, shard, r); });
  if (a.grid.expert > 1) {
    names_[a.expert_group.id()] = experts;
    names_[a.expert_gather.id()] = expert_gather;
    names_[a.expert_scatter.id()] = expert_scatter;
    names_[a.expert_replicas.id()] = expert_replicas;
    set({experts}, [&](int r) { return expert_group(a.grid, r); });
    set({expert_gather, expert_scatter},
        [&](int r) { return expert_shard_group(a.grid, shard, r); });
    set({expert_replicas}, [&](int r) { return expert_replica_group(a.grid, shard, r); });
  }
  set({seq}, [&](int r) { return seq_group(a.grid, r); });
  set({down, up, stages}, [&](int r) { return pipe_group(a.grid, r); });
  auto& all = members_[static_cast<std::size_t>(world)];
  all.resize(static_cast<std::size_t>(a.grid.ranks()));
  std::iota(all.begin(), all.end(), 0);
}

Comm Comms::of(const engine::Context& c) const {
  const auto it = names_.find(&c);
  require(it != names_.end(), "the communicator does not belong to these axes");
  return it->second;
}

}  // namespace trireme
