#pragma once
// How long operations take: run again and again, on all ranks of the job at the same time.
#include <functional>
#include <vector>

#include "kernels/backend.hpp"
#include "lib/comm/communicator.hpp"

namespace trireme {

class Stopwatch {
 public:
  // `least`: seconds that each measurement lasts at least.
  Stopwatch(Backend& b, const Communicator& world, double least)
      : backend_(b), world_(world), least_(least) {}

  // Seconds of one call of `put`, which puts work on a queue: of the fastest of several batches,
  // the mean over the ranks. Called with 0, 1, 2, ..., so that it may take other operands each
  // time. Collective.
  double seconds(Queue, const std::function<void(int)>& put) const;
  // Seconds of one call of something that is done when it returns.
  double seconds(const std::function<void()>& call) const;

 private:
  Backend& backend_;
  const Communicator& world_;
  double least_;
};

}  // namespace trireme
