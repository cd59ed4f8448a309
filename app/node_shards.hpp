#pragma once
// zero.shard = "node": which number that is depends on how many ranks a node runs.
#include <CLI/CLI.hpp>

#include "lib/comm/communicator.hpp"
#include "lib/deck/deck.hpp"

namespace trireme {

// --ranks-per-node of commands that plan for other machines; stays as it is if not given.
void add_ranks_of_node(CLI::App& command, std::int64_t& ranks_of_node);

// The deck with a number for zero.shard = "node".
Deck with_shard_number(Deck, std::int64_t ranks_of_node);
// The same for a run that is planned. Error where `ranks_of_node` is 0, not known, or ranks do not
// fill their nodes.
Deck with_planned_shard_number(Deck, std::int64_t ranks_of_node);
// The same for the job that runs, after saying it. Collective. SharedError as placement_of says.
Deck with_shard_number_here(Deck, const Communicator& world);

// Says how many ranks share a copy where zero.shard = "node".
void tell_shard_number(const Deck&, std::int64_t ranks_of_node);

}  // namespace trireme
