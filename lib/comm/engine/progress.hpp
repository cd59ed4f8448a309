#pragma once
// The progress engine: all operations of a job in flight on this rank, and the one loop that waits.
// It is shared by the job's communicators, and by abandoned operations, to whose memory MPI may
// still write. One thread at a time: the main one, or beside it the one that speaks for slow work
// (lib/comm/agree.hpp).
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/comm/engine/observer.hpp"
#include "lib/comm/engine/operation.hpp"
#include "lib/comm/engine/roll_call.hpp"
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

  // From now on waits that are too long are known to all ranks.
  void take_roll(std::unique_ptr<RollCall> r) { roll_call_ = std::move(r); }
  const RollCall* roll_call() const { return roll_call_.get(); }

  // From now on, as long as it lives; null: nobody.
  void set_observer(Observer* o) { observer_ = o; }
  Observer* observer() const { return observer_; }

  void start(Operation&);
  bool poll();  // advances everything in flight; true: something changed
  // Polls and yields. After Settings::hang_timeout it throws Error, on rank 0 with the roll call.
  void wait_until(const std::function<bool()>& done, const std::function<Wait()>& what);
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
  // On rank 0: asks who waits for what, until all have answered, for a while, or until `done`.
  void ask(const std::function<Wait()>& own, const std::function<bool()>& done);
  // Throws the Error of a wait that is too long: this rank's, or another's.
  [[noreturn]] void hang(const Wait&, bool overdue);

  Settings settings_;
  Observer* observer_ = nullptr;
  std::unique_ptr<RollCall> roll_call_;  // null: one rank, or pretended ones
  DelaySource delays_;
  std::vector<OnStream> on_stream_;
  std::vector<Operation*> in_flight_;  // in the order in which they were called
  std::vector<std::unique_ptr<Operation>> abandoned_;
};

}  // namespace trireme::engine
