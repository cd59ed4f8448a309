#include "lib/base/posix_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme {

namespace fs = std::filesystem;

static const char* advice(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return " -- free some space there";
    case EFBIG:
      return " -- raise the limit on file size (`ulimit -f`)";
    case EMFILE:
      return " -- raise the limit on open files (`ulimit -n`)";
    default:
      return "";
  }
}

void fail_errno(const char* what, const fs::path& path, int code) {
  fail("cannot {} {}: {}{}", what, path.string(), std::strerror(code), advice(code));
}

// Ignores SIGXFSZ. A write beyond the file size limit then fails with EFBIG, which callers report,
// and does not end the process.
static void report_size_limit() {
  [[maybe_unused]] static const auto before = std::signal(SIGXFSZ, SIG_IGN);
}

// Raises the soft limit of open descriptors, and returns true if it was raised. A run may name more
// token files than the soft limit allows.
static bool more_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static int try_to_open(const fs::path& path, int flags) {
  if ((flags & O_ACCMODE) != O_RDONLY) report_size_limit();
  if (path.native().find('\0') != std::string::npos) {  // the system would open another name
    errno = EINVAL;
    return -1;
  }
  for (;;) {
    const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    if (descriptor >= 0 || (errno != EINTR && (errno != EMFILE || !more_descriptors())))
      return descriptor;
  }
}

static int open_descriptor(const fs::path& path, int flags, const char* what) {
  const int descriptor = try_to_open(path, flags);
  if (descriptor < 0) fail_errno(what, path, errno);
  return descriptor;
}

PosixFile::PosixFile(fs::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

PosixFile PosixFile::create(const fs::path& path) {
  return PosixFile(path, open_descriptor(path, O_RDWR | O_CREAT | O_EXCL, "create"));
}

// Opens without waiting, because opening a pipe would block until the pipe has a writer.
PosixFile PosixFile::open_existing(const fs::path& path, int flags, const char* what) {
  PosixFile file(path, open_descriptor(path, flags | O_NONBLOCK, what));
  require(S_ISREG(file.status().st_mode), "cannot {} {}: it is not a regular file", what,
          path.string());
  return file;
}

PosixFile PosixFile::open(const fs::path& path) {
  return open_existing(path, O_RDONLY, "read");
}

PosixFile PosixFile::open_to_write(const fs::path& path) {
  return open_existing(path, O_RDWR, "write");
}

std::optional<PosixFile> PosixFile::open_if_there(const fs::path& path) {
  const int descriptor = try_to_open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  const int code = errno;
  if (descriptor < 0 && code == ENOENT) return {};
  const bool other_kind = code == ELOOP || code == EISDIR || code == ENXIO;
  if (descriptor < 0 && !other_kind) fail_errno("open", path, code);
  PosixFile file(path, descriptor);
  require(descriptor >= 0 && S_ISREG(file.status().st_mode),
          "{} is not a regular file -- remove it", path.string());
  return file;
}

PosixFile::PosixFile(PosixFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

PosixFile& PosixFile::operator=(PosixFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

PosixFile::~PosixFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

struct stat PosixFile::status() const {
  struct stat s {};
  if (::fstat(descriptor_, &s) != 0) fail_errno("access", path_, errno);
  return s;
}

void PosixFile::read_at(std::span<std::byte> out, std::int64_t offset) const {
  while (!out.empty()) {
    const auto n = ::pread(descriptor_, out.data(), out.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno("read", path_, errno);
    require(n > 0, "{} ends before byte {}", path_.string(),
            offset + static_cast<std::int64_t>(out.size()));
    out = out.subspan(static_cast<std::size_t>(n));
    offset += n;
  }
}

void PosixFile::write_at(std::span<const std::byte> bytes, std::int64_t offset) {
  while (!bytes.empty()) {
    const auto n = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno("write", path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += n;
  }
}

void PosixFile::resize(std::int64_t bytes) {
  if (::ftruncate(descriptor_, bytes) != 0) fail_errno("resize", path_, errno);
}

void PosixFile::start_readahead(std::int64_t offset, std::int64_t bytes) const noexcept {
  (void)::posix_fadvise(descriptor_, offset, bytes, POSIX_FADV_WILLNEED);
}

void PosixFile::start_writeback(std::int64_t offset, std::int64_t bytes) noexcept {
  // This is only a hint. If the file system refuses it, nothing is lost.
  (void)::sync_file_range(descriptor_, offset, bytes, SYNC_FILE_RANGE_WRITE);
}

void PosixFile::sync() {
  if (::fsync(descriptor_) != 0) fail_errno("write", path_, errno);
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

std::string read_text(const fs::path& path) {
  const auto file = PosixFile::open(path);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read_at(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

void write_new(const fs::path& path, std::string_view text) {
  auto file = PosixFile::create(path);
  file.write_at(std::as_bytes(std::span(text)), 0);
  file.sync();
}

void replace_atomically(const fs::path& path, std::string_view text) {
  auto temporary = path;
  temporary += ".new";
  std::error_code ignored;
  fs::remove(temporary, ignored);
  try {
    write_new(temporary, text);
    rename_path(temporary, path);
  } catch (...) {
    fs::remove(temporary, ignored);
    throw;
  }
  sync_directory(path.parent_path());
}

void rename_path(const fs::path& from, const fs::path& to) {
  std::error_code e;
  fs::rename(from, to, e);
  require(!e, "cannot rename {} to {}: {}{}", from.string(), to.string(), e.message(),
          advice(e.value()));
}

bool exchange_paths(const fs::path& a, const fs::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  const int code = errno;
  require(code == EINVAL || code == ENOSYS || code == ENOTSUP, "cannot exchange {} and {}: {}",
          a.string(), b.string(), std::strerror(code));
  return false;
}

std::vector<fs::path> entries_of(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code e;
  for (fs::directory_iterator it(directory, e), end; !e && it != end; it.increment(e))
    entries.push_back(it->path());
  require(!e, "cannot read the directory {}: {}", directory.string(), e.message());
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool is_there(const fs::path& path) {
  std::error_code e;
  const auto type = fs::symlink_status(path, e).type();
  require(type != fs::file_type::none, "cannot check whether {} exists: {}", path.string(),
          e.message());
  return type != fs::file_type::not_found;
}

fs::path damaged_name(const fs::path& path) {
  auto name = path;
  name += ".damaged";
  for (int i = 2; is_there(name); ++i) {
    name = path;
    name += ".damaged-" + std::to_string(i);
  }
  return name;
}

void remove_path(const fs::path& path) {
  std::error_code e;
  fs::remove(path, e);
  require(!e, "cannot remove {}: {}", path.string(), e.message());
}

void remove_tree(const fs::path& path) {
  std::error_code e;
  fs::remove_all(path, e);
  require(!e, "cannot remove {}: {}", path.string(), e.message());
}

void make_directory(const fs::path& path) {
  std::error_code e;
  fs::create_directories(path, e);
  require(!e, "cannot create the directory {}: {}{}", path.string(), e.message(),
          advice(e.value()));
}

void require_folder_of(const fs::path& path) {
  std::error_code unknown;
  const auto folder = path.parent_path();
  require(folder.empty() || fs::is_directory(folder, unknown),
          "cannot write {}: the folder {} does not exist; create it first", path.string(),
          folder.string());
}

void sync_directory(const fs::path& path) {
  const fs::path directory = path.empty() ? fs::path(".") : path;
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0 && errno == EACCES) return;  // the directory may be writable and not readable
  if (descriptor < 0) fail_errno("open", directory, errno);
  const int code = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  // Some network file systems cannot sync a directory and return an error. They do not need it.
  if (code != 0 && code != EINVAL && code != ENOTSUP) fail_errno("sync", directory, code);
}

}  // namespace trireme
