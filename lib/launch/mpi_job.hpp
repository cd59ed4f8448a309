#pragma once
// Lifetime of MPI in a process. MPI is initialized once and finalized once.
#include <string>

#include "lib/comm/communicator.hpp"

namespace trireme::launch {

// MPI in this process: the constructor initializes MPI, and the destructor finalizes it. A process
// can have at most one MpiJob. If operations are still in flight, the destructor aborts the job,
// because other ranks may wait for them.
class MpiJob {
 public:
  // Initializes MPI. Any wait for other ranks, in the constructor or later, ends the process after
  // `hang_timeout` seconds. 0 means no limit. world().configure() can change the limit later.
  explicit MpiJob(double hang_timeout = 0);
  ~MpiJob();
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;

  const Communicator& world() const { return world_; }
  // Ends all ranks of the job with this exit code, and does not return. First waits up to five
  // seconds for the launcher to read this rank's output. Then waits half a second, so that the
  // launcher can forward the output and other failing ranks can report their errors.
  [[noreturn]] void abort(int code) const;

 private:
  Communicator world_;
};

// Returns the name and version of the MPI library.
std::string mpi_library();

// Returns the number of ranks according to the launcher's environment (PMI, Open MPI, srun), or 0
// if it is unknown. If the number differs from the communicator's size, the launcher belongs to
// another MPI library and has started N jobs of one rank each.
int launched_ranks();

// Returns the beginning of a command that starts this many ranks in the same way as this job, such
// as "mpiexec -n 4 " or "srun -n 4 ". Returns an empty string for one rank that was not started by
// srun.
std::string launcher_of(int ranks);

}  // namespace trireme::launch
