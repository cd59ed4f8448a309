#pragma once
// Measures the time of operations by running them repeatedly on all ranks of the job at the same
// time.
#include <functional>
#include <vector>

#include "kernels/backend.hpp"
#include "lib/comm/communicator.hpp"

namespace trireme {

// Timer for operations. All methods are collective.
class Stopwatch {
 public:
  // `least` is the minimum duration of each measurement in seconds. The backend and the
  // communicator must outlive this object.
  Stopwatch(Backend& b, const Communicator& world, double least)
      : backend_(b), world_(world), least_(least) {}

  // Returns the seconds of one call of `put`, which puts work on a queue. The result is the time of
  // the fastest of several batches on each rank, averaged over ranks. `put` is called with 0, 1, 2,
  // ..., so that it can use different operands each time. Collective.
  double seconds(Queue, const std::function<void(int)>& put) const;
  // Returns the seconds of one call of a blocking function. Collective.
  double seconds(const std::function<void()>& call) const;

 private:
  Backend& backend_;
  const Communicator& world_;
  double least_;
};

}  // namespace trireme
