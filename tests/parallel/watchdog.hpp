#pragma once
// Ends a process that hangs.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace trireme::test {

class Watchdog {
 public:
  // After `limit` without a call of at(), says where `who` was and ends the process with code 1. On
  // a machine that is busy with other things, where the process had little of that time to compute,
  // it waits up to three times as long.
  Watchdog(std::string who, std::chrono::seconds limit);
  ~Watchdog();

  void at(const std::string& place);

 private:
  void watch();

  std::string who_, place_ = "start-up";
  std::chrono::seconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace trireme::test
