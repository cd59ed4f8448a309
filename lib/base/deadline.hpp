#pragma once
// A time limit for a blocking call that cannot be interrupted.
#include <string>
#include <thread>

namespace trireme {

// A time limit, which begins with construction. If the object still exists after `seconds`, it logs
// an error that `what` is not finished and ends the process with exit code 1, without running
// destructors. `advice` is the end of the message: the likely cause and what to do. If `seconds` is
// 0, there is no limit.
class Deadline {
 public:
  Deadline(std::string what, double seconds, std::string advice = other_ranks);

  static constexpr const char* other_ranks =
      "another rank has died, is stuck or was never started. If that rank is only slow, raise "
      "run.hang_timeout";

 private:
  std::jthread thread_;
};

}  // namespace trireme
