#include "lib/io/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "lib/base/error.hpp"
#include "lib/base/host_name.hpp"
#include "lib/base/log.hpp"
#include "lib/io/posix_file.hpp"
#include "lib/launch/batch_job.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// "job 120_3 restart 2 process 4711 on n3"; a process without a job has "job - restart 0".
struct Holder {
  std::string job, restart, process, host;
};

Holder this_process() {
  auto job = launch::job_id();
  return {job.empty() ? "-" : job, std::to_string(launch::restart_count()),
          std::to_string(::getpid()), host_name()};
}

std::string text_of(const Holder& h) {
  return fmt::format("job {} restart {} process {} on {}", h.job, h.restart, h.process, h.host);
}

// None: released, or written by nobody who knows the format.
std::optional<Holder> parse_holder(const std::string& text) {
  Holder h;
  std::istringstream words(text);
  std::string job, restart, process, on;
  words >> job >> h.job >> restart >> h.restart >> process >> h.process >> on >> h.host;
  if (!words || job != "job" || process != "process" || on != "on") return {};
  return h;
}

bool is_running(const Holder& other) {
  const auto process = std::atoi(other.process.c_str());
  return process > 0 && (::kill(process, 0) == 0 || errno != ESRCH);
}

// A later start of the job that the other is of.
bool requeued(const Holder& other, const Holder& me) {
  return me.job != "-" && other.job == me.job &&
         std::atoi(other.restart.c_str()) < std::atoi(me.restart.c_str());
}

// `locked`: this process has the kernel's lock, which another one of this host would have.
bool gone(const Holder& other, const Holder& me, bool locked,
          std::chrono::duration<double> silent) {
  const bool ended = other.host == me.host && (locked || !is_running(other));
  return ended || requeued(other, me) || silent > RunLock::silence;
}

// What the file says, without the spaces that it is filled up with.
std::string holder_text(const fs::path& file) {
  auto text = read_text(file);
  text.erase(text.find_last_not_of(" \n") + 1);
  return text;
}

// Is the file of this name the one that is open, and does it say so? Error where that cannot be
// seen.
bool is_held(const fs::path& file, int descriptor, const std::string& text) {
  struct stat held {
  }, there{};
  bool seen = ::fstat(descriptor, &held) == 0;
  if (!seen && errno == ESTALE) return false;  // another host removed it
  seen = seen && ::stat(file.c_str(), &there) == 0;
  require(seen, "cannot look at {}: {}", file.string(), std::strerror(errno));
  return held.st_ino == there.st_ino && text == holder_text(file);
}

}  // namespace

// What was found in the file.
struct RunLock::Found {
  bool locked, refused;  // the kernel gave its lock to this process, or to another one
  std::string text;
  fs::file_time_type changed;
};

RunLock::Found RunLock::open() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  require(descriptor_ >= 0, "cannot open {}: {}", file_.string(), std::strerror(errno));
  const bool locked = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  const bool refused = !locked && errno == EWOULDBLOCK;  // else there are no such locks here
  Found found{locked, refused, holder_text(file_), {}};
  std::error_code e;
  found.changed = fs::last_write_time(file_, e);
  require(!e, "cannot look at {}: {}", file_.string(), e.message());
  return found;
}

// A job that comes right behind a node's failure: the other's lock was alive seconds ago. Until it
// shows a sign of life, or is released or taken over, or has been silent for long enough. By this
// host's watch, as its clock need not be the file system's, and for longer than a beat, as the
// file's time may be of the other's clock, which may be behind.
RunLock::Found RunLock::wait_for_sign(const Found& before, std::chrono::duration<double>& silent,
                                      const std::function<bool()>& stop) {
  log_info("{}: waiting for a sign of life of {}", file_.string(), before.text);
  const auto begin = std::chrono::steady_clock::now();
  const auto already = silent;
  const auto is_as_before = [&] {
    std::error_code e;
    const auto changed = fs::last_write_time(file_, e);
    if (e) return e != std::errc::no_such_file_or_directory;  // else a file system's moment
    return changed == before.changed;
  };
  const auto enough =
      std::max<std::chrono::duration<double>>(silence, already + beat + std::chrono::seconds(2));
  while (silent <= enough && is_as_before()) {
    if (stop())
      throw StoppedWaiting(
          fmt::format("stopped while {} was waited for: {} has it", file_.string(), before.text));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    silent = already + (std::chrono::steady_clock::now() - begin);
  }
  auto found = open();
  if (found.changed != before.changed || found.text != before.text) silent = {};
  return found;
}

RunLock::RunLock(const fs::path& run, fs::file_time_type now, const std::function<bool()>& stop)
    : file_(run / "lock") {
  try {
    acquire(run, now, stop);
    start_heart();
  } catch (...) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw;
  }
}

void RunLock::acquire(const fs::path& run, fs::file_time_type now,
                      const std::function<bool()>& stop) {
  const auto me = this_process();
  mine_ = text_of(me);
  auto found = open();
  auto other = parse_holder(found.text);
  using Seconds = std::chrono::duration<double>;
  Seconds silent = std::max(Seconds(0), Seconds(now - found.changed));
  const auto elsewhere = [&] { return other && other->host != me.host; };
  const auto is_gone = [&] { return gone(*other, me, found.locked, silent); };
  if (elsewhere() && !requeued(*other, me) && (me.job != "-" || silent > silence)) {
    found = wait_for_sign(found, silent, stop);
    other = parse_holder(found.text);
  }
  const bool removes = found.refused && elsewhere() && is_gone();
  if (!removes && (found.refused || (other && !is_gone())))
    fail(
        "another process is training in {} ({}, last sign of life {:.0f} s ago): wait for it, or "
        "choose another --run-dir; once it is silent for {} s the lock is free",
        run.string(), found.text, silent.count(), silence.count());
  const auto looked = std::chrono::steady_clock::now();
  require(is_held(file_, descriptor_, found.text),
          "another process took {} just now: wait for it, or choose another --run-dir",
          file_.string());
  if (removes) {
    // Of a node that is gone: its lock on the old file does not matter any more.
    ::close(descriptor_);
    descriptor_ = -1;
    remove_tree(file_);
    descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    require(descriptor_ >= 0, "cannot open {}: {}", file_.string(), std::strerror(errno));
    ::flock(descriptor_, LOCK_EX | LOCK_NB);
  }
  if (elsewhere())
    log_warning("{} is taken over from {}, silent for {:.0f} s", file_.string(), found.text,
                silent.count());
  take();
  // Kernels that do not share locks may let several take it at the same time: the last one has it.
  // Whoever wrote late may come after another's second look: that one sees it at its next beat.
  constexpr std::chrono::milliseconds settling{500};
  const bool late = std::chrono::steady_clock::now() - looked > settling;
  if (!late && !elsewhere() && found.locked && me.job == "-") return;
  std::this_thread::sleep_for(late ? beat + 2 * settling : settling);
  require(is_held(file_, descriptor_, mine_),
          "another process took {} at the same time: wait for it, or choose another --run-dir",
          file_.string());
}

// Texts are as long as each other, so that one replaces another whole.
void RunLock::take() const {
  constexpr std::size_t size = 256;
  auto text = mine_;
  text.resize(std::max(size, text.size()), ' ');
  bool good = true;
  for (std::size_t at = 0; good && at < text.size();) {
    const auto n =
        ::pwrite(descriptor_, text.data() + at, text.size() - at, static_cast<off_t>(at));
    good = n > 0;
    if (good) at += static_cast<std::size_t>(n);
  }
  good = good && ::ftruncate(descriptor_, static_cast<off_t>(text.size())) == 0 &&
         ::fsync(descriptor_) == 0;
  require(good, "cannot write {}: {}", file_.string(), std::strerror(errno));
}

void RunLock::start_heart() {
  try {
    heart_ = std::jthread([this](const std::stop_token& over) { stay_alive(over); });
  } catch (const std::system_error& e) {
    fail("cannot start a thread: {}", e.code().message());
  }
}

void RunLock::stay_alive(const std::stop_token& over) const {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any wake;
  while (!wake.wait_for(lock, over, beat, [&] { return over.stop_requested(); })) {
    std::string text;
    try {
      if (is_held(file_, descriptor_, mine_)) {
        ::futimens(descriptor_, nullptr);
        continue;
      }
      text = holder_text(file_);
    } catch (const Error&) {
      continue;  // a file system's moment
    }
    log_error("{} was taken over by {} while this process gave no sign of life: it ends",
              file_.string(), text);
    std::_Exit(1);
  }
}

RunLock::~RunLock() {
  heart_ = {};
  // Emptied, as others must see that it is free whose kernel does not share this lock.
  try {
    if (is_held(file_, descriptor_, mine_) && ::ftruncate(descriptor_, 0) != 0)
      log_warning("cannot release {}", file_.string());
  } catch (const Error& e) {
    log_warning("cannot release it: {}", e.what());
  }
  ::close(descriptor_);
}

}  // namespace trireme
