#pragma once
// The lifetime of MPI in a process: initialized once, finalized once.
#include <string>

#include "lib/comm/communicator.hpp"

namespace trireme::launch {

// MPI in this process, from initialization in the constructor to finalization in the destructor. A
// process can have at most one. If operations are still in flight, the destructor aborts the job,
// because other ranks may wait for them.
class MpiJob {
 public:
  // Initializes MPI. A wait for other ranks, in the constructor or later, ends the process after
  // `hang_timeout` seconds; 0 means never. Later, world().configure() can change the limit.
  explicit MpiJob(double hang_timeout = 0);
  ~MpiJob();
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;

  const Communicator& world() const { return world_; }
  // Ends all ranks of the job with this exit code. Does not return. Before that, it waits up to
  // five seconds for the launcher to read this rank's output. Then it waits half a second, so that
  // the launcher can forward the output and other failing ranks can report their errors.
  [[noreturn]] void abort(int code) const;

 private:
  Communicator world_;
};

// Returns the name and version of the MPI library.
std::string mpi_library();

// Returns the number of ranks according to the launcher's environment (PMI, Open MPI, srun), or 0
// if it is unknown. If it differs from the communicator's size, a launcher of another MPI has
// started N jobs of one rank each.
int launched_ranks();

// Returns the beginning of a command that starts this many ranks as this job's were started, such
// as "mpiexec -n 4 " or "srun -n 4 ". Returns an empty string for one rank that no srun started.
std::string launcher_of(int ranks);

}  // namespace trireme::launch
