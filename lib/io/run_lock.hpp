#pragma once
// One job at a time trains in a run directory: it holds the file `lock`.
//
// The file says who holds it, by an id that no other process has, and is complete whenever it is
// there. It changes in four ways alone:
//   created   a file written under another name gets the name `lock`, where there is none (link)
//   replaced  the same, in place of the one that is there (rename)
//   touched   its holder gives a sign of life, every heartbeat: the time of the file
//   removed   its holder releases it
// Of several processes that create it at a time one succeeds. It may be replaced when its holder
//   - ended, as is known where process numbers mean the same, or the text is nobody's,
//   - or belongs to an earlier start of the same job, which was requeued,
//   - or gave no sign of life while it was watched for longer than `silence`.
// Whoever replaced one, and has no flock to show that its holder ended, gives it a grace of a
// heartbeat and some slack before it believes in its own: a holder looks at its lock every
// heartbeat and ends when it is another's, and of several that replace it at a time the last one
// has it. So no two train at a time while signs of life are no later than the slack. Behind a later
// one, and where somebody removes the file by hand, two may train until the next heartbeat; but who
// has lost it then ends with an error, and as it looks before it publishes anything, that can only
// come between where the loss falls between this look and the rename behind it. Time is a span on
// one process's own watch: clocks of machines are not compared.
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

// A stop was asked for while another process's lock was waited for: nothing was changed.
struct StoppedWaiting : Error {
  using Error::Error;
};

LockHolder this_process();

struct LockOptions {
  // Is the process asked to stop?
  std::function<bool()> stop = [] { return false; };
  LockHolder me = this_process();
  LockTimes times{};
  // Called, by a thread of its own, when the lock is lost, with why. By default the process ends.
  std::function<void(const std::string&)> lost{};
};

class RunLock {
 public:
  // Error when another process has it; StoppedWaiting.
  explicit RunLock(const std::filesystem::path& run, LockOptions = {});
  ~RunLock();  // releases it
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // What the file says as long as this process has it.
  const std::string& text() const { return mine_; }

 private:
  struct Looked;
  Looked look() const;
  void take(const std::function<bool()>& stop, LockTimes);
  void write_own();
  bool create();  // false where the file system cannot
  void replace();
  void release() noexcept;
  void clean() const;
  void send_heartbeats(const std::stop_token&, LockTimes,
                       const std::function<void(const std::string&)>& lost) const;

  std::filesystem::path file_, own_;  // `lock`, and the name under which it is written
  LockHolder me_;
  std::string mine_;
  std::optional<PosixFile> own_file_;  // one's own file, with a flock on it
  std::jthread heart_;
};

// Is it the name under which a lock was written whose process died before it was in its place?
bool is_lock_left(std::string_view name);

// The lock is another process's, or gone.
struct LostLock : Error {
  using Error::Error;
};
// LostLock where the lock of this run directory says anything else; Error when that cannot be seen.
void require_lock(const std::filesystem::path& run, const std::string& text);

}  // namespace trireme
