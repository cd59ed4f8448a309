#include "lib/base/deadline.hpp"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "lib/base/log.hpp"

namespace trireme {

static void watch(const std::stop_token& over, const std::string& what, double seconds) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait_for(lock, over, std::chrono::duration<double>(seconds),
                                         [] { return false; });
  if (over.stop_requested()) return;
  log_error(
      "{} is not finished after {} s: another rank has died, is stuck or was never started. If "
      "that rank is only slow, raise run.hang_timeout",
      what, seconds);
  std::_Exit(1);
}

Deadline::Deadline(std::string what, double seconds) {
  if (seconds <= 0) return;
  thread_ = std::jthread([what = std::move(what), seconds](const std::stop_token& over) {
    watch(over, what, seconds);
  });
}

}  // namespace trireme
