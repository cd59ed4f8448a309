#include "app/node_shards.hpp"

#include "lib/base/counted.hpp"
#include "lib/base/log.hpp"
#include "lib/comm/placement.hpp"
#include "lib/deck/trainer_setup.hpp"
#include "lib/shard/policy.hpp"

namespace trireme {

void add_ranks_of_node(CLI::App& command, std::int64_t& ranks_of_node) {
  command
      .add_option("--ranks-per-node", ranks_of_node,
                  "consecutive ranks that each node runs: zero.shard = \"node\" needs them, and "
                  "plan says what is sent to other nodes")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
}

Deck with_shard_number(Deck d, std::int64_t ranks_of_node) {
  if (d.zero.shard == a_copy_each_node)
    d.zero.shard = shard_ranks_within_node(grid_of(d), ranks_of_node);
  return d;
}

Deck with_planned_shard_number(Deck d, std::int64_t ranks_of_node) {
  if (d.zero.shard != a_copy_each_node) return d;
  const std::int64_t ranks = grid_of(d).ranks();
  require(
      ranks_of_node > 0,
      "zero.shard = \"node\" depends on how many ranks a node runs: give --ranks-per-node or, to "
      "plan, --machine");
  require(ranks < ranks_of_node || ranks % ranks_of_node == 0,
          "zero.shard = \"node\" needs as many ranks on each node: {} are no multiple of {}", ranks,
          ranks_of_node);
  return with_shard_number(std::move(d), ranks_of_node);
}

Deck with_shard_number_here(Deck d, const Communicator& world) {
  if (d.zero.shard != a_copy_each_node) return d;
  const int ranks_of_node = placement_of(world).ranks_of_node;
  tell_shard_number(d, ranks_of_node);
  return with_shard_number(std::move(d), ranks_of_node);
}

void tell_shard_number(const Deck& d, std::int64_t ranks_of_node) {
  if (d.zero.shard != a_copy_each_node) return;
  const auto shard = shard_ranks_within_node(grid_of(d), ranks_of_node);
  if (shard == 1)
    log_warning(
        "zero.shard = \"node\": with {} on a node and {} of a stage no two of them share a copy, "
        "so nothing is sharded",
        counted(ranks_of_node, "rank"), counted(grid_of(d).places(), "rank"));
  else
    log_info("zero.shard = \"node\": {} share a copy", counted(shard, "rank"));
}

}  // namespace trireme
