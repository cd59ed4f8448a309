#pragma once
// MPI's life in a process: initialised once, finalised once.
#include "lib/comm/communicator.hpp"

namespace trireme::launch {

// Initialises MPI and finalises it; one per process. When operations are still in flight at its
// end, for which other ranks may be waiting, it aborts the whole job.
class MpiJob {
 public:
  MpiJob();
  ~MpiJob();
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;

  const Communicator& world() const { return world_; }
  // Ends all ranks of the job with this exit code; does not return.
  [[noreturn]] void abort(int code) const;

 private:
  Communicator world_;
};

// Number of ranks according to the launcher's environment (srun, PMI, Open MPI); 0 when unknown.
// If it differs from the communicator's, the launcher of another MPI started N jobs of one rank.
int launched_ranks();

}  // namespace trireme::launch
