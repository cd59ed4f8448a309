#include "lib/io/lock_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/error.hpp"
#include "lib/io/posix_file.hpp"

namespace trireme {

namespace fs = std::filesystem;

Descriptor::~Descriptor() {
  if (n_ >= 0) ::close(n_);
}

Descriptor open_lock(const fs::path& file) {
  int n;
  do {
    n = ::open(file.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && errno == ENOENT) return Descriptor();
  const bool other_kind = n < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO);
  if (n < 0 && !other_kind) fail_errno("open", file, errno);
  Descriptor opened(n);
  struct stat s {};
  if (opened && ::fstat(n, &s) != 0) fail_errno("look at", file, errno);
  require(opened && S_ISREG(s.st_mode),
          "{} is not a regular file -- remove it, or choose another --run-dir", file.string());
  return opened;
}

std::string read_all(const Descriptor& opened, const fs::path& file) {
  constexpr std::size_t most = 4096;  // no lock is longer
  std::string text(most, '\0');
  std::size_t size = 0;
  while (size < most) {
    const auto n = ::pread(opened.get(), text.data() + size, most - size, off_t(size));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno("read", file, errno);
    if (n == 0) break;
    size += std::size_t(n);
  }
  text.resize(size);
  return text;
}

}  // namespace trireme
