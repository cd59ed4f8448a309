#pragma once
// How many threads a rank's work gets.
#include <cstdint>

#include "lib/comm/communicator.hpp"

namespace trireme {

// `wanted` if above 0, else OMP_NUM_THREADS, SLURM_CPUS_PER_TASK, or the processors that this
// process may use divided by the ranks that share them.
int threads_of_rank(std::int64_t wanted, const Communicator& world);

}  // namespace trireme
