#include "lib/comm/agree.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/background_work.hpp"
#include "lib/base/error_text.hpp"

namespace trireme {

namespace {

// Runs one round in which ranks tell each other whether any of them is still working. A second
// thread may call this while the main thread makes no MPI calls.
bool any_works(const Communicator& world, bool here) {
  double any = here;
  world.all_reduce_max({&any, 1});
  return any > 0;
}

// A thread that takes part in rounds of any_works() as a working rank, from construction until
// end().
class Beat {
 public:
  Beat(const Communicator& world, double seconds) : world_(world), seconds_(seconds) {
    thread_.start([this] { run(); });
  }
  // Ends this rank's part in the rounds. Throws if the other ranks did not take part in a round.
  void end() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    const std::chrono::duration<double> pause(seconds_);
    while (!changed_.wait_for(lock, pause, [this] { return over_; })) {
      lock.unlock();
      any_works(world_, true);
      lock.lock();
    }
  }

  const Communicator& world_;
  double seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  BackgroundWork thread_;
};

// Runs `work`. With Pace::slow, also waits until the work is over on all ranks. Returns the
// exception that `work` threw, or null.
std::exception_ptr paced(const Communicator& world, const std::function<void()>& work, Pace pace) {
  const double limit = world.settings().hang_timeout;
  std::optional<Beat> beat;
  if (pace == Pace::slow && limit > 0 && world.size() > 1)
    beat.emplace(world, std::min(limit / 4, 5.0));
  std::exception_ptr error;
  try {
    work();
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  if (!beat) return error;
  beat->end();
  while (any_works(world, false)) {
  }
  return error;
}

std::string message_of(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return error_text(e);
  }
}

}  // namespace

void together(const Communicator& world, Pace pace, const std::function<void()>& work) {
  const auto mine = message_of(paced(world, work, pace));
  if (world.size() == 1) {
    if (!mine.empty()) throw SharedError(mine);
    return;
  }
  const auto said = world.all_gather(mine);
  std::vector<std::string> seen;
  std::string text;
  for (std::size_t r = 0; r < said.size(); ++r) {
    if (said[r].empty() || std::ranges::find(seen, said[r]) != seen.end()) continue;
    const auto times = std::ranges::count(said, said[r]);
    const auto who = times == world.size() ? std::string() : fmt::format("rank {}: ", r);
    text += (text.empty() ? "" : "\n") + who + said[r];
    seen.push_back(said[r]);
  }
  if (!text.empty()) throw SharedError(text);
}

void together(const Communicator& world, const std::function<void()>& work) {
  together(world, Pace::quick, work);
}

void at_root(const Communicator& world, Pace pace, const std::function<void()>& work) {
  const std::function<void()> mine = world.rank() == 0 ? work : [] {};
  auto why = message_of(paced(world, mine, pace));
  double failed = !why.empty();
  world.all_reduce_max({&failed, 1});
  if (failed == 0) return;
  world.broadcast(why);
  throw SharedError(why);
}

void at_root(const Communicator& world, const std::function<void()>& work) {
  at_root(world, Pace::quick, work);
}

}  // namespace trireme
