#pragma once
// The progress engine: all operations of a job that are in flight on this rank, and the one loop
// that waits. The job's communicators own it together; so do operations that were abandoned, as MPI
// may still write to their memory. Main thread only.
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
  bool poll();  // everything in flight moves; true: something did
  // Polls and yields. Throws Error with `what()` after Settings::hang_timeout.
  void wait_until(const std::function<bool()>& done, const std::function<std::string()>& what);
  // Until it is complete; throws its error.
  void wait(Operation&);

  // Waits for what is on the devices' streams, though complete on the host's view.
  void synchronize();

  void abandon(std::unique_ptr<Operation>) noexcept;
  std::vector<std::string> abandoned() const;
  void drain();

 private:
  // An operation between devices that is left to the stream.
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
