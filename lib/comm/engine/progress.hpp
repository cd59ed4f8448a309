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

  // Waits for what is on the devices' streams, though finished on the host's view.
  void settle();

  void abandon(std::unique_ptr<Job>) noexcept;
  std::vector<std::string> left_over() const;
  void drain();

 private:
  // An operation between devices that its job has left to the stream.
  struct Underway {
    std::weak_ptr<Channel> channel;  // gone: so may the backend be
    Backend* backend;
    Event last;
    Label label;  // its unit lives as long as the model
  };
  void watch(const Job&);

  std::vector<Underway> underway_;
  std::vector<Job*> moving_;  // in the order in which they were called
  std::vector<std::unique_ptr<Job>> abandoned_;
  std::vector<std::unique_ptr<Job>> failed_;  // drained, but MPI may still hold their memory
};

}  // namespace trireme
