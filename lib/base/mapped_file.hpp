#pragma once
// Memory mapping of files.
#include <cstddef>
#include <span>

#include "lib/base/posix_file.hpp"

namespace trireme {

// A shared mapping of a whole file: writes to bytes() change the file. The mapping stays valid
// after the PosixFile is destroyed. The constructor maps all pages, because a page fault for each
// page takes several times as long as copying the page.
class MappedFile {
 public:
  // `file` must be open for writing and keep its size. Throws Error if the file cannot be mapped.
  explicit MappedFile(const PosixFile& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

// Opens a file for reading and writing, and creates it if the path does not exist.
PosixFile open_or_create(const std::filesystem::path&);

// Opens or creates a file, sets its size to `bytes` and reserves its memory or disk space, so that
// later writes to a mapping cannot fail. An existing file keeps its content up to the new size. If
// there is not enough space, removes the file and throws Error.
PosixFile reserve_file(const std::filesystem::path&, std::int64_t bytes);

}  // namespace trireme
