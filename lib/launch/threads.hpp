#pragma once
// Number of threads with which a rank computes.
#include <cstdint>
#include <span>
#include <string>

#include "lib/comm/communicator.hpp"

namespace trireme::launch {

// Returns the number of threads for this rank. Collective. If `wanted` is 0, OMP_NUM_THREADS or
// SLURM_CPUS_PER_TASK determines the number. If neither variable is set, the number of processors
// in this process's affinity mask is divided by the number of ranks on the node whose masks overlap
// this mask.
int threads_of_rank(std::int64_t wanted, const Communicator& world);

// Returns the number of processors that this rank may use: the processors in its affinity mask,
// divided among the ranks of the node that share them. The result is at least 1. Collective.
int processors_of_rank(const Communicator& world);

// Returns the number of processors in `mine` divided by the number of masks in `all` that overlap
// it. The result is at least 1. A mask is a text with an 'x' for each processor. `all` contains the
// masks of all ranks of the node, including `mine`.
int share_of_processors(const std::string& mine, std::span<const std::string> all);
// Returns true if the masks of two ranks overlap but differ.
bool badly_bound(std::span<const std::string> all);

}  // namespace trireme::launch
