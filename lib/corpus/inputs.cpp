#include "lib/corpus/inputs.hpp"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "lib/base/error.hpp"

namespace trireme {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  const int status = ::glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  require(status == 0 && !paths.empty(),
          "no file matches {}: correct the pattern, which is relative to the working directory",
          pattern);
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> paths;
  const auto hidden = [](const fs::path& p) { return p.filename().string().starts_with('.'); };
  for (auto it = fs::recursive_directory_iterator(folder); it != fs::end(it); ++it) {
    if (hidden(it->path())) {
      if (it->is_directory()) it.disable_recursion_pending();
    } else if (it->is_regular_file()) {
      paths.push_back(it->path().string());
    }
  }
  require(!paths.empty(), "the folder {} contains no files", folder);
  std::sort(paths.begin(), paths.end());
  return paths;
}

FileStamp stamp_in(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return {};
  return {status.st_size,
          std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

}  // namespace

FileStamp stamp_of(const std::string& path) {
  struct stat status {};
  require(::stat(path.c_str(), &status) == 0, "cannot read {}: {}", path, std::strerror(errno));
  return stamp_in(status);
}

std::vector<std::string> expand_inputs(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  std::set<std::string> seen;
  const auto add = [&](const std::string& path) {
    const std::string key = path == "-" ? path : fs::weakly_canonical(path).string();
    if (seen.insert(key).second) files.push_back(path);
  };
  for (const auto& pattern : patterns) {
    if (pattern == "-") {
      add(pattern);
      continue;
    }
    const bool globs = !fs::exists(pattern) && pattern.find_first_of("*?[") != std::string::npos;
    for (const auto& path : globs ? matches(pattern) : std::vector{pattern}) {
      require(fs::exists(path), "there is no file {}: correct the path", path);
      if (!fs::is_directory(path)) {
        add(path);
      } else {
        for (const auto& file : files_below(path)) add(file);
      }
    }
  }
  require(!files.empty(), "no input is given: give files, globs, folders, or - for standard input");
  return files;
}

InputFile::InputFile(const std::string& path, Packed packed)
    : path_(path),
      name_(path == "-" ? "standard input" : path),
      fd_(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  require(fd_ >= 0, "cannot open {}: {}", name_, std::strerror(errno));
  if (packed == Packed::unpacked) unpacker_ = Unpacker::start(fd_, path);
}

InputFile::~InputFile() {
  ::close(fd_);
}

std::size_t InputFile::append_to(std::string& text, std::size_t n) {
  const std::size_t old = text.size();
  n = static_cast<std::size_t>(std::min(static_cast<std::int64_t>(n), left_));
  text.resize(old + n);
  const auto room = std::as_writable_bytes(std::span(text)).subspan(old);
  const std::size_t got = read_some(room, -1);
  text.resize(old + got);
  left_ -= static_cast<std::int64_t>(got);
  if (unpacker_ && got < n) unpacker_->finish();
  return got;
}

void InputFile::restrict_to(std::int64_t begin, std::int64_t end) {
  expect(!unpacker_ && 0 <= begin && begin <= end, "a range of a file that is read as it is");
  require(::lseek(fd_, begin, SEEK_SET) == begin, "cannot read {} from byte {}", name_, begin);
  left_ = end - begin;
  is_empty_range_ = begin == end;
  from_start_ = begin == 0;
  to_end_ = end == size();
}

FileStamp InputFile::stamp() const {
  struct stat status {};
  require(::fstat(fd_, &status) == 0, "cannot read {}: {}", name_, std::strerror(errno));
  return stamp_in(status);
}

std::int64_t InputFile::size() const {
  struct stat status {};
  require(::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode),
          "{} is not a regular file: name the file itself", name_);
  return status.st_size;
}

void InputFile::read_at(std::int64_t offset, std::span<std::byte> out) {
  buffer_.resize(buffer_bytes);
  while (!out.empty()) {
    if (offset < buffer_begin_ || offset >= buffer_end_) {
      const std::size_t got = read_some(buffer_, offset);
      require(got > 0,
              "{} ends at byte {}, but is longer according to its header or index: copy it again",
              name_, offset);
      buffer_begin_ = offset;
      buffer_end_ = offset + static_cast<std::int64_t>(got);
    }
    const auto skip = static_cast<std::size_t>(offset - buffer_begin_);
    const auto n = std::min(out.size(), static_cast<std::size_t>(buffer_end_ - offset));
    std::memcpy(out.data(), buffer_.data() + skip, n);
    out = out.subspan(n);
    offset += static_cast<std::int64_t>(n);
  }
}

// Reads from `offset`, or from the stream's current position if `offset` is -1. Returns the number
// of bytes, which is smaller than requested only at the end of the file.
std::size_t InputFile::read_some(std::span<std::byte> out, std::int64_t offset) {
  std::size_t have = 0;
  while (have < out.size()) {
    const auto rest = out.subspan(have);
    const ssize_t n =
        offset < 0 ? ::read(unpacker_ ? unpacker_->descriptor() : fd_, rest.data(), rest.size())
                   : ::pread(fd_, rest.data(), rest.size(),
                             static_cast<off_t>(offset) + static_cast<off_t>(have));
    if (n < 0 && errno == EINTR) continue;
    require(n >= 0, "cannot read {}: {}", name_, std::strerror(errno));
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  return have;
}

}  // namespace trireme
