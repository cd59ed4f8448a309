#pragma once
// One job at a time trains in a run directory.
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "lib/base/error.hpp"

namespace trireme {

// A stop was asked for while another process's lock was waited for: nothing was changed.
struct StoppedWaiting : Error {
  using Error::Error;
};

// Holds the file `lock`, which says who does: job, restart, process and host. Two means, as kernels
// of several nodes may not see each other's locks: the kernel's lock, released however the process
// ends, and a sign of life every few seconds, the file's time. Error when another process holds it,
// unless that is on another host and
//   - gave no sign of life for `silence`,
//   - or belongs to an earlier start of this job, which was requeued.
// A job waits for such a silence, until it is asked to stop; who has no job is refused at once.
// Before it is taken over it is watched for longer than a beat, by whatever clock its time is.
// A process whose lock was taken over ends with code 1.
class RunLock {
 public:
  static constexpr std::chrono::seconds silence{60}, beat{10};

  // `now` by the clock of the file system. `stop`: is the process asked to stop?
  RunLock(
      const std::filesystem::path& run, std::filesystem::file_time_type now,
      const std::function<bool()>& stop = [] { return false; });
  ~RunLock();  // releases it
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  struct Found;
  Found open();
  Found wait_for_sign(const Found&, std::chrono::duration<double>& silent,
                      const std::function<bool()>& stop);
  void acquire(const std::filesystem::path& run, std::filesystem::file_time_type now,
               const std::function<bool()>& stop);
  void take() const;
  void start_heart();
  void stay_alive(const std::stop_token&) const;

  std::filesystem::path file_;
  std::string mine_;
  int descriptor_ = -1;
  std::jthread heart_;
};

}  // namespace trireme
