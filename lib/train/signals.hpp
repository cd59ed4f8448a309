#pragma once
// What the outside asked a run for: SIGUSR1 a checkpoint, SIGTERM and SIGINT a checkpoint and the
// end. Noticed at once, acted on at the end of a step.
#include <cstdint>

namespace trireme {

enum class Asked : std::uint8_t { nothing, checkpoint, stop };

// Handles the signals while it lives; one at a time. A second SIGTERM or SIGINT two
// seconds after the first ends the process.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // What was asked since the last call; a stop stays.
  Asked take();
  bool stop() const;  // was a stop asked for?
};

}  // namespace trireme
