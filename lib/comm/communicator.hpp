#pragma once
// Ranks of a job. A default-constructed Communicator is rank 0 of 1 and makes no MPI call, so one
// code path serves one rank and many. Waiting tests and yields: more ranks than cores stay usable.
// Every operation is collective over the communicator; MPI's errors become Errors with its text.
#include <memory>
#include <span>
#include <string>

namespace trireme {

class Communicator {
 public:
  Communicator() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }

  void broadcast(std::string&, int root = 0) const;
  void all_reduce(std::span<double>) const;  // sum
  // Lets posted transfers move; cheap, called between ops.
  void progress() const;

 private:
  friend class MpiJob;
  struct Handle;
  std::shared_ptr<Handle> handle_;
  int rank_ = 0, size_ = 1;
};

// Owns MPI between construction and destruction; one per process.
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

}  // namespace trireme
