#pragma once
// How many threads a rank's work gets.
#include <cstdint>
#include <span>
#include <string>

#include "lib/comm/communicator.hpp"

namespace trireme::launch {

// `wanted` if above 0, else OMP_NUM_THREADS, SLURM_CPUS_PER_TASK, or the processors that this
// process may use divided by the ranks of its node that may use some of them, too. Collective.
int threads_of_rank(std::int64_t wanted, const Communicator& world);

// At least 1. A rank's processors as text, 'x' where it may use one; `all` of the node, own
// included.
int share_of_processors(const std::string& mine, std::span<const std::string> all);
// Two ranks share some of their processors, but not all.
bool bound_badly(std::span<const std::string> all);

}  // namespace trireme::launch
