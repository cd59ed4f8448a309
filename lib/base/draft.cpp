#include "lib/base/draft.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>

#include "lib/base/error.hpp"
#include "lib/base/hash.hpp"
#include "lib/base/host_name.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/process_space.hpp"
#include "lib/base/text_parts.hpp"

namespace trireme {

namespace fs = std::filesystem;

namespace {

// The drafts of this process. A thread that ends the process keeps the mutex locked forever, so
// that nothing is published any more.
struct Drafts {
  std::mutex mutex;
  std::set<fs::path> paths;
};
Drafts& drafts() {
  static auto* const all = new Drafts;  // outlives every thread
  return *all;
}

constexpr std::size_t space_digits = 10;

// Returns a name of the host and container. Process numbers are meaningful only within the same
// host and container.
std::string space_name() {
  return to_string(hash128(host_name() + " " + this_process_space())).substr(0, space_digits);
}

// The writer of a draft ".NAME.partial.SPACE.PROCESS".
struct Writer {
  std::string_view space;
  int process;
};
std::optional<Writer> writer_in(std::string_view rest) {
  const auto dot = rest.find('.');
  const auto process = number_in<int>(rest.substr(dot == rest.npos ? 0 : dot + 1));
  if (!process || (dot != rest.npos && dot != space_digits)) return {};
  // Earlier versions wrote no SPACE.
  return Writer{dot == rest.npos ? "" : rest.substr(0, dot), *process};
}

void remove_left(const fs::path& folder, const std::string& begin, const std::string& space) {
  std::error_code e;
  for (fs::directory_iterator it(folder, e), end; !e && it != end; it.increment(e)) {
    const auto name = it->path().filename().string();
    if (!name.starts_with(begin)) continue;
    const auto writer = writer_in(std::string_view(name).substr(begin.size()));
    if (!writer) continue;
    // Without /proc, processes of different containers cannot be distinguished.
    if (writer->space != space || this_process_space() == "-") {
      log_warning(
          "{} was made on another host, in another container or before a reboot: remove it if no "
          "process is writing it",
          it->path().string());
      continue;
    }
    const bool own = writer->process == ::getpid() && drafts().paths.contains(it->path());
    if (own || (writer->process != ::getpid() && is_running(writer->process))) continue;
    std::error_code stays;
    fs::remove_all(it->path(), stays);
    if (!stays) log_info("removed {}, left by a process that died", it->path().string());
  }
}

void require_free(const fs::path& target) {
  require(!is_there(target), "{} exists: remove it first, or give another name", target.string());
}

// Renames without replacing a file that appeared meanwhile, if the file system supports this.
void rename_to_new(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
  const int code = errno;
  require_free(to);
  if (code != EINVAL && code != ENOSYS && code != ENOTSUP)
    fail_errno("rename the finished output to", to, code);
  rename_path(from, to);
}

// Removes a file or folder. Retries, because another thread may still be writing in it.
void remove_written(const fs::path& path) {
  std::error_code e;
  for (int i = 0; i < 100 && fs::exists(fs::symlink_status(path, e)); ++i) fs::remove_all(path, e);
}

[[noreturn]] void end_by(int signal) {
  drafts().mutex.lock();
  for (const auto& path : drafts().paths) remove_written(path);
  std::signal(signal, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  ::kill(::getpid(), signal);
  ::_exit(128 + signal);
}

}  // namespace

Draft::Draft(const fs::path& target, ExistingFile existing, std::string_view kind)
    : existing_(existing) {
  std::error_code e;
  // Drop a final "/" or ".", which has no name. Keep "..", because after a symbolic link it leads
  // elsewhere than its text says.
  target_ = fs::absolute(target, e);
  while (!e && target_ != target_.root_path() &&
         (!target_.has_filename() || target_.filename() == "."))
    target_ = target_.parent_path();
  require(!e && target_.has_filename() && target_.filename() != "..",
          "'{}' does not end with the name of a file or folder", target.string());
  if (existing_ == ExistingFile::stays) require_free(target_);
  const auto folder = target_.parent_path();
  make_directory(folder);
  constexpr std::size_t most_of_name = 200;  // a name may have 255 bytes in total
  const auto begin =
      fmt::format(".{}{}.partial.", target_.filename().string().substr(0, most_of_name), kind);
  const auto space = space_name();
  path_ = folder / fmt::format("{}{}.{}", begin, space, ::getpid());
  const std::lock_guard lock(drafts().mutex);
  remove_left(folder, begin, space);
  require(!is_there(path_), "{} is in the way: remove it first", path_.string());
  drafts().paths.insert(path_);
}

Draft::~Draft() {
  const std::lock_guard lock(drafts().mutex);
  std::error_code ignored;
  if (!published_) fs::remove_all(path_, ignored);
  drafts().paths.erase(path_);
}

void Draft::publish(const fs::path& part) {
  {
    const std::lock_guard lock(drafts().mutex);
    const auto& from = part.empty() ? path_ : part;
    if (existing_ == ExistingFile::stays)
      rename_to_new(from, target_);
    else
      rename_path(from, target_);
    published_ = part.empty();
  }
  sync_directory(target_.parent_path());
}

void remove_drafts_on_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : std::array{SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now = {};
    // nohup ignores SIGHUP. UCX handles it, and would only print its state.
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
      sigaddset(&signals, number);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  try {
    std::thread([signals] {
      int number = 0;
      while (::sigwait(&signals, &number) != 0) {
      }
      end_by(number);
    }).detach();
  } catch (const std::system_error&) {  // without a thread, signals end the process at once
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  }
}

}  // namespace trireme
