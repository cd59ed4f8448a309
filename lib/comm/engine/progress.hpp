#pragma once
// The progress engine: all operations of a job in flight on this rank, and the one loop that waits.
// It is shared by the job's communicators, and by abandoned operations, to whose memory MPI may
// still write. Main thread only.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/comm/engine/operation.hpp"
#include "lib/comm/engine/settings.hpp"

namespace trireme::engine {

class Progress {
 public:
  explicit Progress(const Settings& s = {}) { configure(s); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Throws Error when a chunk is empty or too long for a message.
  void configure(const Settings&);
  const Settings& settings() const { return settings_; }
  DelaySource& delays() { return delays_; }

  void start(Operation&);
  bool poll();  // advances everything in flight; true: something changed
  // Polls and yields. Throws Error with `what()` after Settings::hang_timeout.
  void wait_until(const std::function<bool()>& done, const std::function<std::string()>& what);
  // Until it is complete; throws its error.
  void wait(Operation&);

  // Waits for operations that are complete for the host but still run on a device's stream.
  void synchronize();

  void abandon(std::unique_ptr<Operation>) noexcept;
  std::vector<std::string> abandoned() const;
  void drain();

 private:
  // An operation between devices, enqueued and not known to be done.
  struct OnStream {
    std::weak_ptr<Context> context;  // gone: so may the backend be
    Backend* backend;
    Event last;
    Label label;  // its unit lives as long as the model
  };
  void watch(const Operation&);

  Settings settings_;
  DelaySource delays_;
  std::vector<OnStream> on_stream_;
  std::vector<Operation*> in_flight_;  // in the order in which they were called
  std::vector<std::unique_ptr<Operation>> abandoned_;
};

}  // namespace trireme::engine
