#include "lib/base/background_work.hpp"

#include <csignal>
#include <system_error>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme {

BackgroundWork::~BackgroundWork() {
  if (thread_.joinable()) thread_.join();
}

void BackgroundWork::start(std::function<void()> work) try {
  expect(!thread_.joinable(), "one piece of work at a time");
  finished_ = false;
  thread_ = std::thread([this, work = std::move(work)] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    try {
      work();
    } catch (...) {
      error_ = std::current_exception();
    }
    finished_.store(true, std::memory_order_release);
  });
} catch (const std::system_error& e) {
  fail("cannot start a thread: {} -- raise `ulimit -u` or the job's limit on processes",
       e.code().message());
}

void BackgroundWork::wait() {
  if (thread_.joinable()) thread_.join();
  error_ = nullptr;
}

void BackgroundWork::join() {
  if (thread_.joinable()) thread_.join();
  if (auto error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
}

}  // namespace trireme
