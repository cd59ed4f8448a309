#pragma once
// All operations of this process that are in flight, and the one loop that waits. Main thread only.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/comm/job.hpp"

namespace trireme {

class InFlight {
 public:
  // Never destroyed: what was dropped may still be written by MPI.
  static InFlight& here();

  void start(Job&);
  bool poke();  // true: something moved
  // Tests and yields, everything in flight moves. Throws Error with `what()` after
  // CommSettings::hang_timeout.
  void wait_until(const std::function<bool()>& done, const std::function<std::string()>& what);
  // Until it is finished; throws its error.
  void wait_for(Job&);

  void abandon(std::unique_ptr<Job>) noexcept;
  std::vector<std::string> left_over() const;
  void drain();

 private:
  std::vector<Job*> moving_;  // in the order in which they were called
  std::vector<std::unique_ptr<Job>> abandoned_;
  std::vector<std::unique_ptr<Job>> failed_;  // drained, but MPI may still hold their memory
};

}  // namespace trireme
