#pragma once
// A time limit for a blocking call that cannot be interrupted.
#include <string>
#include <thread>

namespace trireme {

// A time limit, which begins with construction. If the object still exists after `seconds`, it logs
// an error that `what` is not finished and ends the process with exit code 1, without running
// destructors. If `seconds` is 0, there is no limit.
class Deadline {
 public:
  Deadline(std::string what, double seconds);

 private:
  std::jthread thread_;
};

}  // namespace trireme
