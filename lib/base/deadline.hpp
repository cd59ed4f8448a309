#pragma once
// A limit on a call that blocks and cannot be interrupted.
#include <string>
#include <thread>

namespace trireme {

// While it lives, for at most `seconds` (0: for ever): then the process says that `what` is not
// finished and ends with code 1, without any destructor.
class Deadline {
 public:
  Deadline(std::string what, double seconds);

 private:
  std::jthread thread_;
};

}  // namespace trireme
