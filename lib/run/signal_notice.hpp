#pragma once
// Log lines about signals. When a signal arrives, they immediately say what the run will do.
#include <atomic>
#include <cstdint>

#include "lib/run/signals.hpp"

namespace trireme {

// Whether the current step may be dropped if it delays the checkpoint that a signal requests.
enum class Dropping : std::uint8_t { possible, impossible };

// Logs the arrival of signals while the object exists.
class SignalNotice {
 public:
  // `grace` is run.signal_grace, in seconds.
  SignalNotice(SignalWatch&, double grace);
  ~SignalNotice();
  SignalNotice(const SignalNotice&) = delete;
  SignalNotice& operator=(const SignalNotice&) = delete;

  // begin_step() and end_step() say which step is running, for the log line.
  void begin_step(std::int64_t step, Dropping);
  void end_step() { step_ = 0; }

 private:
  void log(std::string_view name, RunRequest) const;

  SignalWatch& signals_;
  double grace_;
  std::atomic<std::int64_t> step_ = 0;  // 0 between steps
  std::atomic<Dropping> dropping_ = Dropping::impossible;
};

}  // namespace trireme
