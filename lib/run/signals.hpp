#pragma once
// Handles signals to a run. SIGUSR1 requests a checkpoint. SIGTERM, SIGINT, SIGHUP (the terminal
// was closed, unless nohup is used) and SIGPIPE (no process reads the output any more) request a
// checkpoint and the end of the run. Signals are recorded immediately and acted on at the end of a
// step.
#include <csignal>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>

namespace trireme {

// Request that a signal makes to a run.
enum class RunRequest : std::uint8_t { nothing, checkpoint, stop };

// Blocks the signals. Call it first in a process. Signals then stay pending, also across exec,
// until a SignalWatch handles them. After the SignalWatch is destroyed, signals stay pending again.
void hold_signals();

// Handles the signals during its lifetime. At most one SignalWatch may exist. Create it after MPI
// is initialized and before the threads that compute. Signals that are already pending are recorded
// immediately.
//
// A second SIGINT at least two seconds after the first one ends the process, for users who type ^C
// twice. Repeated other signals do not end the process, because a batch system repeats them while a
// checkpoint is written. If a stop was requested, no signal ends the process after the watch is
// destroyed.
//
// Handlers run on a separate thread. The signals are blocked in the creating thread and in threads
// that it starts, because matrix products of oneDNN (2.6, AVX-512) let the stack pointer point into
// the heap, where a handler's frame would overwrite data.
class SignalWatch {
 public:
  // Function that is called when a signal arrives, with the signal's name and its request.
  using Listener = std::function<void(std::string_view name, RunRequest)>;

  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Returns the request of the signals that arrived since the last call. A stop request persists.
  RunRequest take();
  bool stop() const;  // true if a stop was requested
  // Returns the seconds since the arrival of the first signal that requested a stop, or 0 if there
  // was none.
  double seconds_since_stop() const;
  // Sets the listener, which is called on a separate thread. It is called for the first signal that
  // requests a stop, immediately if that signal has already arrived, and for signals that request a
  // checkpoint. If a call is running, announce() returns after that call. An empty function ends
  // the calls.
  void announce(Listener);

 private:
  void listen(const std::stop_token&, const sigset_t&);
  void tell();

  // File descriptor through which the signal handlers wake the thread.
  int woken_;
  std::mutex mutex_;
  Listener announced_;
  bool stop_announced_ = false;
  std::jthread listener_;
};

}  // namespace trireme
