#include "lib/io/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

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

// `locked`: this process has the kernel's lock, which another one of this host would have.
bool gone(const Holder& other, const Holder& me, bool locked,
          std::chrono::duration<double> silent) {
  const bool requeued = me.job != "-" && other.job == me.job && other.restart != me.restart;
  const bool ended = other.host == me.host && (locked || !is_running(other));
  return ended || requeued || silent > RunLock::silence;
}

// A job that comes right behind a node's failure: the other's lock, silent for so long, was alive
// seconds ago. Until it shows a sign of life, or somebody else takes it over, or it has been silent
// for long enough. Waited for by this host's watch, as its clock need not be the file system's.
std::chrono::duration<double> wait_for_sign(const fs::path& file,
                                            std::chrono::duration<double> silent) {
  const auto seen = fs::last_write_time(file);
  log_info("{}: waiting for a sign of life of {}", file.string(), read_text(file));
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    if (fs::last_write_time(file) != seen) return {};
    const auto all = silent + (std::chrono::steady_clock::now() - begin);
    if (all > RunLock::silence) return all;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

// Is the file of this name the one that is open, and does it say so? Error where that cannot be
// seen.
bool is_held(const fs::path& file, int descriptor, const std::string& text) {
  struct stat held {
  }, there{};
  require(::fstat(descriptor, &held) == 0 && ::stat(file.c_str(), &there) == 0,
          "cannot look at {}: {}", file.string(), std::strerror(errno));
  return held.st_ino == there.st_ino && text == read_text(file);
}

}  // namespace

RunLock::RunLock(const fs::path& run, fs::file_time_type now) : file_(run / "lock") {
  const auto me = this_process();
  mine_ = text_of(me);
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  require(descriptor_ >= 0, "cannot open {}: {}", file_.string(), std::strerror(errno));
  const bool locked = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  const bool refused = !locked && errno == EWOULDBLOCK;  // else there are no such locks here
  const auto text = read_text(file_);
  const auto other = parse_holder(text);
  std::chrono::duration<double> silent = now - fs::last_write_time(file_);
  if (other && me.job != "-" && other->host != me.host && !gone(*other, me, locked, silent))
    silent = wait_for_sign(file_, silent);
  if (refused && other && other->host != me.host && gone(*other, me, locked, silent)) {
    // Of a node that is gone: its lock on the old file does not matter any more.
    const bool same = is_held(file_, descriptor_, text);
    ::close(descriptor_);
    require(same, "another process took {} over from {} just now", file_.string(), text);
    remove_tree(file_);
    descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    require(descriptor_ >= 0, "cannot open {}: {}", file_.string(), std::strerror(errno));
    ::flock(descriptor_, LOCK_EX | LOCK_NB);
  } else if (refused || (other && !gone(*other, me, locked, silent))) {
    ::close(descriptor_);
    fail(
        "another process is training in {} ({}, last sign of life {:.0f} s ago): wait for it, or "
        "choose another --run-dir; once it is silent for {} s the lock is free",
        run.string(), text, silent.count(), silence.count());
  }
  if (other && other->host != me.host)
    log_warning("{} is taken over from {}, silent for {:.0f} s", file_.string(), text,
                silent.count());
  take();
  if (other && other->host != me.host) {
    // Of several that take it over at the same time, the last one has it.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (!is_held(file_, descriptor_, mine_)) {
      ::close(descriptor_);
      fail("another process took {} over from {} at the same time", file_.string(), text);
    }
  }
  try {
    heart_ = std::jthread([this](const std::stop_token& over) { stay_alive(over); });
  } catch (const std::system_error& e) {
    ::close(descriptor_);
    fail("cannot start a thread: {}", e.code().message());
  }
}

void RunLock::take() {
  bool good = ::ftruncate(descriptor_, 0) == 0;
  for (std::size_t at = 0; good && at < mine_.size();) {
    const auto n =
        ::pwrite(descriptor_, mine_.data() + at, mine_.size() - at, static_cast<off_t>(at));
    good = n > 0;
    if (good) at += static_cast<std::size_t>(n);
  }
  if (good) return;
  const int reason = errno;
  ::close(descriptor_);
  fail("cannot write {}: {}", file_.string(), std::strerror(reason));
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
      text = read_text(file_);
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
  if (::ftruncate(descriptor_, 0) != 0) log_warning("cannot release {}", file_.string());
  ::close(descriptor_);
}

}  // namespace trireme
