#include "lib/base/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace trireme {

MappedFile::MappedFile(const PosixFile& file) {
  const auto size = static_cast<std::size_t>(file.size());
  if (size == 0) return;  // mmap refuses an empty range
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                          file.descriptor(), 0);
  if (at == MAP_FAILED) fail_errno("map", file.path(), errno);
  bytes_ = {static_cast<std::byte*>(at), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

PosixFile open_or_create(const std::filesystem::path& path) {
  auto there = PosixFile::open_if_there(path);
  return there ? std::move(*there) : PosixFile::create(path);
}

PosixFile reserve_file(const std::filesystem::path& path, std::int64_t bytes) {
  auto file = open_or_create(path);
  int code = 0;
  do {
    code = bytes > 0 ? ::posix_fallocate(file.descriptor(), 0, bytes) : 0;
  } while (code == EINTR);
  if (code == 0) {
    if (file.size() > bytes) file.resize(bytes);
    return file;
  }
  ::unlink(path.c_str());
  fail_errno("write", path, code);
}

}  // namespace trireme
