#include "lib/base/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace trireme {

MappedFile::MappedFile(const PosixFile& file) {
  const auto size = static_cast<std::size_t>(file.size());
  if (size == 0) return;  // mmap refuses an empty range
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0);
  if (at == MAP_FAILED) fail_errno("map", file.path(), errno);
  bytes_ = {static_cast<std::byte*>(at), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

PosixFile create_reserved(const std::filesystem::path& path, std::int64_t bytes) {
  auto file = PosixFile::create(path);
  int code = 0;
  do {
    code = bytes > 0 ? ::posix_fallocate(file.descriptor(), 0, bytes) : 0;
  } while (code == EINTR);
  if (code == 0) return file;
  ::unlink(path.c_str());
  fail_errno("write", path, code);
}

}  // namespace trireme
