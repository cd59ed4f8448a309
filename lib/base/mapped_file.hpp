#pragma once
// A file in memory: its bytes as a part of this process's address space.
#include <cstddef>
#include <span>

#include "lib/base/posix_file.hpp"

namespace trireme {

// Maps a whole file for reading and writing. Changes are changes of the file. The mapping lives
// longer than the PosixFile if necessary. All pages are mapped at once, because a page fault for
// each page takes several times as long as copying the page.
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

// Opens a file of `bytes` bytes whose memory or disk space is reserved, so that later writes to the
// mapping cannot fail. Reuses the space of an existing file, whose content stays up to the new
// size. Throws Error if there is not enough space, and removes the file.
PosixFile reserve_file(const std::filesystem::path&, std::int64_t bytes);

}  // namespace trireme
