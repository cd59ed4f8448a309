#pragma once
// Signals to a run: SIGUSR1 asks for a checkpoint; SIGTERM, SIGINT, SIGHUP (the terminal was
// closed; nohup keeps it away) and SIGPIPE (nobody reads the output any more) for a checkpoint and
// the end. They are recorded at once and acted on at the end of a step.
#include <cstdint>
#include <thread>

namespace trireme {

enum class RunRequest : std::uint8_t { nothing, checkpoint, stop };

// For the first instant of a process: they wait for the SignalWatch, also over exec, and after it.
void hold_signals();

// Handles the signals while it lives; one at a time, made before the threads that compute and
// after MPI. A second SIGINT two seconds after the first ends the process, for whoever types ^C
// twice; other signals do not, as a batch system repeats them while a checkpoint is written. Once
// the watch is gone after a stop, none does. What was held before is noted at once. Handlers run on
// a thread of their own; this one and those it starts have the signals blocked. For oneDNN's
// products (2.6, AVX-512) have the stack pointer point into the heap, where a handler's frame would
// overwrite whatever lies below.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // What was asked since the last call; a stop stays.
  RunRequest take();
  bool stop() const;  // was a stop asked for?
  // Since the first signal that asked for a stop; 0: none did.
  double seconds_since_stop() const;

 private:
  std::jthread listener_;
};

}  // namespace trireme
