#include "lib/base/deadline.hpp"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "lib/base/log.hpp"

namespace trireme {

static void watch(const std::stop_token& over, const std::string& what, double seconds,
                  const std::string& advice) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait_for(lock, over, std::chrono::duration<double>(seconds),
                                         [] { return false; });
  if (over.stop_requested()) return;
  log_error("{} is not finished after {} s: {}", what, seconds, advice);
  std::_Exit(1);
}

Deadline::Deadline(std::string what, double seconds, std::string advice) {
  if (seconds <= 0) return;
  thread_ = std::jthread([what = std::move(what), seconds, advice = std::move(advice)](
                             const std::stop_token& over) { watch(over, what, seconds, advice); });
}

}  // namespace trireme
