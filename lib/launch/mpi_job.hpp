#pragma once
// MPI as a process has it: started once, ended once.
#include "lib/comm/communicator.hpp"

namespace trireme::launch {

// Owns MPI between construction and destruction, and with the world all that is in flight on this
// rank; one per process. When operations were abandoned at its end, which others might wait for, it
// ends all ranks of the job.
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

// Ranks that the launcher says it started (srun, PMI, Open MPI); 0 when it says nothing. When this
// disagrees with the communicator, N lone ranks were started by a launcher of another MPI.
int launched_ranks();

}  // namespace trireme::launch
