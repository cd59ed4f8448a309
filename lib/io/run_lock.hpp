#pragma once
// A lock file that allows only one job at a time to train in a run directory. The process that
// holds the file `lock` may train.
//
// The file contains a unique id of its holder. Whenever the file exists, its contents are complete.
// The file changes in only four ways:
//
//   created   A file written under another name gets the name `lock`, if there is none (link).
//   replaced  The same, but in place of an existing file (rename).
//   touched   At every heartbeat, the holder gives a sign of life by updating the file's time.
//   removed   The holder releases the lock.
//
// If several processes try to create the file at the same time, exactly one succeeds. A process may
// replace the file in three cases:
//
// - The holder's process has ended, which is known if process ids mean the same for both, or the
//   text names no holder.
// - The holder is an earlier start of the same job, which was requeued or whose script started the
//   program again.
// - The holder gave no sign of life while it was watched for longer than `silence`.
//
// A process that replaced the file waits for a grace period of one heartbeat plus slack before it
// trains, unless it has a flock that proves that the former holder has ended. Each holder checks
// the file at every heartbeat, and ends if the file names another process. If several processes
// replace the file, the last one holds it. Two processes therefore never train at the same time if
// heartbeats are at most `slack` late.
//
// If a heartbeat is later, or a user removes the file, two processes may train until the next
// heartbeat. The process that lost the lock then ends with an error. Because a holder checks the
// file before it publishes anything, a conflict is only possible if the lock is lost between this
// check and the rename that follows. Each process measures time with its own clock, and the clocks
// of different machines are never compared.
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/io/lock_rules.hpp"

namespace trireme {

// Thrown if the process is asked to stop while it waits for another process's lock. No file was
// changed.
struct StoppedWaiting : Error {
  using Error::Error;
};

// Returns a description of this process as a lock holder, with a new unique id.
LockHolder this_process();

// Settings of a RunLock.
struct LockOptions {
  // Function that returns true if the process has been asked to stop.
  std::function<bool()> stop = [] { return false; };
  LockHolder me = this_process();
  LockTimes times{};
  // Function that is called on a separate thread, with the reason, if the lock is lost. By default,
  // the process ends.
  std::function<void(const std::string&)> lost{};
};

// Owner of the lock of a run directory.
class RunLock {
 public:
  // Waits for the lock and takes it. Throws Error if another live process holds it. Throws
  // StoppedWaiting if the process is asked to stop meanwhile.
  explicit RunLock(const std::filesystem::path& run, LockOptions = {});
  // Releases the lock.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Returns the text of the lock file while this process holds the lock.
  const std::string& text() const { return mine_; }

 private:
  struct Looked;
  Looked look() const;
  void take(const std::function<bool()>& stop, LockTimes);
  void write_own();
  // Tries to create the lock file. Returns false if the file system does not support links.
  bool create();
  void replace();
  void release() noexcept;
  void clean() const;
  void send_heartbeats(const std::stop_token&, LockTimes,
                       const std::function<void(const std::string&)>& lost) const;

  // `file_` is the path of `lock`. `own_` is the temporary path to which this process writes its
  // lock file.
  std::filesystem::path file_, own_;
  LockHolder me_;
  std::string mine_;
  // This process's lock file, on which the process has a flock.
  std::optional<PosixFile> own_file_;
  std::jthread heart_;
};

// Returns true for the name of a temporary lock file. Such a file remains if its process ended
// before it could rename the file.
bool is_lock_left(std::string_view name);

// Thrown if the lock is missing or belongs to another process.
struct LostLock : Error {
  using Error::Error;
};
// Throws LostLock if the run directory's lock does not contain `text`. Throws Error if the lock
// cannot be read.
void require_lock(const std::filesystem::path& run, const std::string& text);

}  // namespace trireme
