#include "lib/comm/ways.hpp"

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

Ways::Ways(const Axes& a, int shard) {
  using enum Way;
  const std::pair<const Communicator*, Way> named[] = {
      {&a.gather, gather}, {&a.scatter, scatter}, {&a.replicas, replicas}, {&a.seq, seq},
      {&a.down, down},     {&a.up, up},           {&a.stages, stages},     {&a.world, world}};
  for (const auto& [c, way] : named) way_[c->id()] = way;
  const auto set = [&](std::initializer_list<Way> ways, const auto& group) {
    const auto all = members_of(a.grid, a.grid.rank(a.at), group);
    for (const auto w : ways) members_[static_cast<std::size_t>(w)] = all;
  };
  set({gather, scatter}, [&](int r) { return shard_group(a.grid, shard, r); });
  set({replicas}, [&](int r) { return replica_group(a.grid, shard, r); });
  set({seq}, [&](int r) { return seq_group(a.grid, r); });
  set({down, up, stages}, [&](int r) { return pipe_group(a.grid, r); });
  auto& all = members_[static_cast<std::size_t>(world)];
  all.resize(static_cast<std::size_t>(a.grid.ranks()));
  std::iota(all.begin(), all.end(), 0);
}

Way Ways::of(const engine::Context& c) const {
  const auto it = way_.find(&c);
  require(it != way_.end(), "a communicator of other axes than these");
  return it->second;
}

}  // namespace trireme
