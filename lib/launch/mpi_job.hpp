#pragma once
// MPI's life in a process: initialised once, finalised once.
#include <string>

#include "lib/comm/communicator.hpp"

namespace trireme::launch {

// Initialises MPI and finalises it; one per process. When operations are still in flight at its
// end, for which other ranks may be waiting, it aborts the whole job.
class MpiJob {
 public:
  // A wait for other ranks, here and later, ends the process after `hang_timeout` seconds; 0:
  // never. world().configure changes it.
  explicit MpiJob(double hang_timeout = 0);
  ~MpiJob();
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;

  const Communicator& world() const { return world_; }
  // Ends all ranks of the job with this exit code; does not return. Waits until the launcher has
  // taken what this rank said, five seconds at most, and half a second for it to pass that on, and
  // for other ranks that fail now to say why.
  [[noreturn]] void abort(int code) const;

 private:
  Communicator world_;
};

// The MPI library's name and version.
std::string mpi_library();

// Number of ranks according to the launcher's environment (PMI, Open MPI, srun); 0 when unknown.
// If it differs from the communicator's, the launcher of another MPI started N jobs of one rank.
int launched_ranks();

}  // namespace trireme::launch
