#pragma once
// How many threads a rank computes with.
#include <cstdint>
#include <span>
#include <string>

#include "lib/comm/communicator.hpp"

namespace trireme::launch {

// `wanted` if above 0, else OMP_NUM_THREADS, SLURM_CPUS_PER_TASK, or the processors in this
// process's affinity mask divided by the ranks of the node whose masks overlap it. Collective.
int threads_of_rank(std::int64_t wanted, const Communicator& world);

// At least 1. An affinity mask as text, 'x' for each processor in it; `all` of the node's ranks,
// this one included.
int share_of_processors(const std::string& mine, std::span<const std::string> all);
// Do the masks of two ranks overlap without being equal?
bool badly_bound(std::span<const std::string> all);

}  // namespace trireme::launch
