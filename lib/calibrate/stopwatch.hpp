#pragma once
// Measures the time of operations by running them repeatedly on all ranks of the job at the same
// time.
#include <functional>
#include <vector>

#include "kernels/backend.hpp"
#include "lib/comm/communicator.hpp"

namespace trireme {

// A timer for operations. Its methods are collective.
class Stopwatch {
 public:
  // `least` is the minimum number of seconds for each measurement. Backend and communicator must
  // outlive this object.
  Stopwatch(Backend& b, const Communicator& world, double least)
      : backend_(b), world_(world), least_(least) {}

  // Returns the seconds of one call of `put`, which issues work on a queue. Takes the fastest of
  // several batches on each rank and averages over ranks. `put` is called with 0, 1, 2, ..., so
  // that it can use different operands each time. Collective.
  double seconds(Queue, const std::function<void(int)>& put) const;
  // Returns the seconds of one call of a function that is complete when it returns. Collective.
  double seconds(const std::function<void()>& call) const;

 private:
  Backend& backend_;
  const Communicator& world_;
  double least_;
};

}  // namespace trireme
