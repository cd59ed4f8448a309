#pragma once
// A thread that runs one function at a time in the background.
#include <atomic>
#include <exception>
#include <functional>
#include <thread>

namespace trireme {

// A background thread that runs one function at a time.
class BackgroundWork {
 public:
  BackgroundWork() = default;
  // Blocks until a running function returns.
  ~BackgroundWork();
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  // Starts the function in a new thread that handles no signals. The previous function must have
  // been joined. Throws Error if the system refuses to create a thread.
  void start(std::function<void()>);
  bool running() const { return thread_.joinable() && !finished_.load(std::memory_order_acquire); }
  // Blocks until the function returns. Rethrows the exception if the function threw one.
  void join();
  // Blocks until the function returns. Discards the exception if the function threw one.
  void wait();

 private:
  std::thread thread_;
  std::atomic<bool> finished_ = false;
  std::exception_ptr error_;
};

}  // namespace trireme
