#pragma once
// The progress engine: all operations of a job that are in flight on this rank, and the loop that
// waits for them. All communicators of the job share one engine. The engine also owns abandoned
// operations, because MPI may still write to their memory. Only one thread may use the engine at a
// time: the main thread, or the thread that reports slow work (lib/comm/agree.hpp).
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/comm/engine/observer.hpp"
#include "lib/comm/engine/operation.hpp"
#include "lib/comm/engine/roll_call.hpp"
#include "lib/comm/engine/settings.hpp"

namespace trireme::engine {

// The progress engine of one rank.
class Progress {
 public:
  explicit Progress(const Settings& s = {}) { configure(s); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Changes the settings. Throws Error if the chunk size is 0 or too long for one message.
  void configure(const Settings&);
  const Settings& settings() const { return settings_; }
  DelaySource& delays() { return delays_; }

  // Sets the RollCall that diagnoses waits that take too long.
  void take_roll(std::unique_ptr<RollCall> r) { roll_call_ = std::move(r); }
  const RollCall* roll_call() const { return roll_call_.get(); }

  // Notifies `o` of all further calls until `o` is destroyed. Null ends notification.
  void set_observer(Observer* o) { observer_ = o; }
  Observer* observer() const { return observer_; }

  // Sets a function that poll() calls (Communicator::set_companion). Empty ends the calls.
  void set_companion(std::function<void()> work) { companion_ = std::move(work); }

  // Starts an operation and adds it to the operations in flight.
  void start(Operation&);
  // Advances all operations in flight without blocking. Returns true if anything changed.
  bool poll();
  // Polls and yields until `done` returns true. Throws Error after Settings::hang_timeout. On rank
  // 0, the message lists what each rank waits for.
  void wait_until(const std::function<bool()>& done, const std::function<Wait()>& what);
  // Blocks until the operation completes. Throws the operation's Error if it failed.
  void wait(Operation&);

  // Blocks until all operations that are enqueued on the device's stream have run.
  void synchronize();

  // Takes ownership of an operation whose Pending was destroyed before wait(). See
  // Communicator::abandoned() and Communicator::drain().
  void abandon(std::unique_ptr<Operation>) noexcept;
  std::vector<std::string> abandoned() const;
  void drain();

 private:
  // An operation between devices that is enqueued and may still run.
  struct OnStream {
    // Expired if the communicator has been destroyed. The backend may then have been destroyed,
    // too.
    std::weak_ptr<Context> context;
    Backend* backend;
    Event last;
    Label label;  // its unit lives as long as the model
  };
  void watch(const Operation&);
  // Asks all ranks what they wait for. Returns when all ranks have answered, after a time limit, or
  // when `done` returns true. Called on rank 0 only.
  void ask(const std::function<Wait()>& own, const std::function<bool()>& done);
  // Throws Error because a rank has waited too long: this rank if `overdue` is set, otherwise
  // another one.
  [[noreturn]] void hang(const Wait&, bool overdue);

  Settings settings_;
  Observer* observer_ = nullptr;
  std::function<void()> companion_;
  std::unique_ptr<RollCall> roll_call_;  // null if there is one rank or the job is pretended
  DelaySource delays_;
  std::vector<OnStream> on_stream_;
  std::vector<Operation*> in_flight_;  // in the order of calls
  std::vector<std::unique_ptr<Operation>> abandoned_;
};

}  // namespace trireme::engine
