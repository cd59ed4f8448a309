#pragma once
// A time limit for a blocking call that cannot be interrupted.
#include <string>
#include <thread>

namespace trireme {

// Ends the process with exit code 1 unless the object is destroyed within `seconds`. Before that,
// it logs an error saying that `what` is not finished. No destructors run. 0 means no limit.
class Deadline {
 public:
  Deadline(std::string what, double seconds);

 private:
  std::jthread thread_;
};

}  // namespace trireme
