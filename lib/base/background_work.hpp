#pragma once
// A piece of work in a thread of its own, one at a time.
#include <atomic>
#include <exception>
#include <functional>
#include <thread>

namespace trireme {

class BackgroundWork {
 public:
  BackgroundWork() = default;
  ~BackgroundWork();  // waits
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  // Signals are left to other threads. Error where there can be no thread.
  void start(std::function<void()>);
  bool running() const { return thread_.joinable() && !finished_.load(std::memory_order_acquire); }
  // Waits, and throws what the work threw.
  void join();
  // Waits; what the work threw is forgotten.
  void wait();

 private:
  std::thread thread_;
  std::atomic<bool> finished_ = false;
  std::exception_ptr error_;
};

}  // namespace trireme
