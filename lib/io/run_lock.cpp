#include "lib/io/run_lock.hpp"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/host_name.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/process_space.hpp"
#include "lib/base/random_id.hpp"
#include "lib/launch/batch_job.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Opens the lock. It is opened for each look, because a network file system then asks its server.
std::optional<PosixFile> open_lock(const fs::path& file) {
  return PosixFile::open_if_there(file);
}

std::string text_of(const PosixFile& lock) {
  constexpr std::int64_t most = 4096;  // no lock is longer
  std::string text(static_cast<std::size_t>(std::min(lock.size(), most)), '\0');
  lock.read_at(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

// Describes the holder of a lock for messages.
std::string holder_in(const std::string& text) {
  const auto holder = parse_lock_holder(text);
  return holder ? short_text_of(*holder) : "an unknown process";
}

// Returns the reason why this process no longer holds the lock, or an empty string if it holds the
// lock. `heartbeat` makes the call renew the lock's time.
std::string loss_of(const fs::path& file, const std::string& mine, bool heartbeat) {
  const auto opened = open_lock(file);
  const auto text = opened ? text_of(*opened) : "";
  if (text == mine) {
    if (heartbeat) ::futimens(opened->descriptor(), nullptr);
    return {};
  }
  if (!opened && !is_there(file.parent_path()))
    return fmt::format("{} is gone: the run directory was removed or renamed during the run",
                       file.parent_path().string());
  if (!opened)
    return fmt::format(
        "{} is gone: this process ends, because another process may be training there",
        file.string());
  return fmt::format(
      "{} was taken over by {}, so this process ends. It sent no heartbeat for too long, its job "
      "was requeued, or its lock was removed",
      file.string(), holder_in(text));
}

}  // namespace

LockHolder this_process() {
  const auto job = launch::job_id();
  return {job.empty() ? "-" : job,
          launch::restart_count(),
          launch::recovery_count(),
          ::getpid(),
          host_name(),
          this_process_space(),
          random_id()};
}

// The state of the lock, and the descriptor that holds a flock on it.
struct RunLock::Looked {
  LockObservation seen;
  std::optional<PosixFile> opened;
};

RunLock::Looked RunLock::look() const {
  using Liveness = LockObservation::Liveness;
  Looked found{{}, open_lock(file_)};
  auto& [seen, opened] = found;
  if (!opened) return found;
  const auto s = opened->status();
  seen = {true, text_of(*opened),
          std::int64_t(s.st_mtim.tv_sec) * 1'000'000'000 + s.st_mtim.tv_nsec};
  const auto other = parse_lock_holder(seen.text);
  if (!other || other->id == me_.id || !share_pids(*other, me_)) return found;
  if (::flock(opened->descriptor(), LOCK_EX | LOCK_NB) != 0) {
    const bool refused = errno == EWOULDBLOCK;  // otherwise this file system has no flock
    seen.liveness = refused || is_running(other->process) ? Liveness::alive : Liveness::ended;
    return found;
  }
  // The former owner of the flock may have replaced the file.
  struct stat now {};
  const bool same = ::lstat(file_.c_str(), &now) == 0 && now.st_ino == s.st_ino;
  seen.liveness = same ? Liveness::ended_and_flocked : Liveness::unknown;
  return found;
}

RunLock::RunLock(const fs::path& run, LockOptions o)
    : file_(run / "lock"),
      own_(run / ("lock." + o.me.id)),
      me_(std::move(o.me)),
      mine_(text_of(me_)) {
  if (!o.lost)
    o.lost = [](const std::string& why) {
      log_error("{}", why);
      std::_Exit(1);
    };
  try {
    take(o.stop, o.times);
    heart_ = std::jthread([this, times = o.times, lost = o.lost](const std::stop_token& over) {
      send_heartbeats(over, times, lost);
    });
  } catch (const std::system_error& e) {
    release();
    fail("cannot start a thread: {}", e.code().message());
  } catch (...) {
    release();
    throw;
  }
}

void RunLock::take(const std::function<bool()>& stop, LockTimes times) {
  LockAttempt attempt{me_, times};
  std::string waits_for, other;
  while (true) {
    const auto found = look();
    const auto& text = found.seen.text;
    const auto step = attempt.next(found.seen, std::chrono::steady_clock::now().time_since_epoch());
    switch (step) {
      case LockStep::have:
        return clean();
      case LockStep::refuse:
        fail(
            "another process is training in {} ({}): wait until it ends, or choose another "
            "--run-dir. If it has died, its lock becomes free {} s after its last heartbeat",
            file_.parent_path().string(), holder_in(text),
            std::chrono::duration<double>(times.silence).count());
      case LockStep::create:
        if (!create()) {
          attempt.needs_grace();
          replace();
        }
        break;
      case LockStep::replace:
        other = holder_in(text);
        if (!text.empty()) log_warning("{} is taken over from {}", file_.string(), other);
        replace();
        break;
      case LockStep::wait:
        if (text != mine_) other = holder_in(text);
        if (std::exchange(waits_for, text) != text)
          log_info("{}: {}", file_.string(),
                   text == mine_ ? "waiting until the previous owner has noticed the takeover"
                                 : "waiting for a heartbeat of " + other);
        if (stop())
          throw StoppedWaiting(
              fmt::format("stopped while waiting for {}, which {} held", file_.string(), other));
        std::this_thread::sleep_for(times.look);
    }
  }
}

void RunLock::write_own() {
  if (own_file_) return;
  write_new(own_, mine_);
  own_file_ = open_lock(own_);
  if (own_file_)
    ::flock(own_file_->descriptor(), LOCK_EX | LOCK_NB);  // some file systems have no flock
}

bool RunLock::create() {
  write_own();
  if (::link(own_.c_str(), file_.c_str()) == 0 || errno == EEXIST) return true;
  switch (errno) {
    case EPERM:
    case ENOTSUP:
    case ENOSYS:
    case EMLINK:
      return false;
    case ENOENT:  // another process holds the lock, and removed own_ in clean()
      own_file_.reset();
      return true;
    default:
      fail_errno("create", file_, errno);
  }
}

void RunLock::replace() {
  write_own();
  if (::rename(own_.c_str(), file_.c_str()) == 0) return;
  if (errno != ENOENT) fail_errno("replace", file_, errno);
  own_file_.reset();
}

void RunLock::clean() const {
  std::error_code e;
  for (fs::directory_iterator it(file_.parent_path(), e), end; !e && it != end; it.increment(e))
    if (is_lock_left(it->path().filename().string())) ::unlink(it->path().c_str());
}

bool is_lock_left(std::string_view name) {
  return name.starts_with("lock.") && name.size() == 5 + random_id_digits &&
         name.find_first_not_of("0123456789abcdef", 5) == name.npos;
}

void RunLock::send_heartbeats(const std::stop_token& over, LockTimes times,
                              const std::function<void(const std::string&)>& lost) const {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any wake;
  while (!wake.wait_for(lock, over, times.heartbeat, [&] { return over.stop_requested(); })) {
    try {
      const auto why = loss_of(file_, mine_, true);
      if (!why.empty()) return lost(why);
    } catch (const Error&) {  // the file system may recover
    }
  }
}

void RunLock::release() noexcept {
  try {
    if (loss_of(file_, mine_, false).empty()) ::unlink(file_.c_str());
  } catch (const std::exception&) {  // others notice that heartbeats have stopped
  }
  ::unlink(own_.c_str());
}

RunLock::~RunLock() {
  heart_ = {};
  release();
}

void require_lock(const fs::path& run, const std::string& text) {
  const auto why = loss_of(run / "lock", text, false);
  if (!why.empty()) throw LostLock(why);
}

}  // namespace trireme
