#pragma once
// A virtual file driver that lets HDF5 write a checkpoint file through a PosixFile.
//
// The standard driver is unsuitable: on a full disk, H5Fclose fails, the identifier stays open and
// the process may crash at exit. HDF5's in-memory driver avoids these problems but holds a second
// copy of the shard in memory. This driver writes immediately. If a write fails, it stores the
// first error and reports success to HDF5, so that HDF5 always closes cleanly. `check()` then
// throws the stored error with its errno text.
//
// HDF5 is not thread-safe. Only one thread of a process at a time has an Hdf5Sink: the constructor
// waits for the sinks of other threads. A memory copy and a checkpoint may therefore be written at
// the same time.
#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "lib/base/background_work.hpp"
#include "lib/base/byte_range.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/io/hdf5_handle.hpp"

namespace trireme {

// The file to which HDF5 writes.
class Hdf5Sink {
 public:
  // Borrows a file that is open for reading and writing. HDF5 sees an empty file: bytes that it
  // does not write become 0, whatever the file contained. This object must outlive the HDF5 file
  // handle. Throws Error if the file's size is unknown.
  //
  // `old` is the content of the file in memory (MappedFile), or empty. If it is given, a write from
  // staging() that would not change the file is left out.
  explicit Hdf5Sink(PosixFile& file, std::span<const std::byte> old = {});
  Hdf5Sink(const Hdf5Sink&) = delete;
  Hdf5Sink& operator=(const Hdf5Sink&) = delete;

  // Creates an HDF5 file in the PosixFile. The format is compatible with the oldest HDF5 readers.
  Hdf5Handle create();
  // Returns memory that the caller fills before the next large write. Two such buffers alternate: a
  // thread writes one buffer to the file while the caller fills the other.
  std::span<std::byte> staging(std::size_t bytes);
  // Throws the first error of the writes that have finished so far.
  void check() const;
  // Waits for the last write, then calls check().
  void finish();
  // Returns the ranges whose writes were left out. Call finish() first.
  const std::vector<ByteRange>& unchanged() const { return unchanged_; }

  // Functions that the HDF5 driver calls.
  void write(std::span<const std::byte>, std::int64_t offset) noexcept;
  bool read(std::span<std::byte>, std::int64_t offset) noexcept;
  void resize(std::int64_t bytes) noexcept;
  std::int64_t end() const { return end_; }

 private:
  void keep(const std::exception&) noexcept;
  void store(std::span<const std::byte>, std::int64_t offset);
  void store_if_changed(std::span<const std::byte>, std::int64_t offset);
  void clear_old_up_to(std::int64_t offset);
  void join() noexcept;

  std::unique_lock<std::mutex> turn_of_hdf5_;
  PosixFile* file_;
  // The file size that HDF5 must see, even after a failed write.
  std::int64_t end_ = 0;
  // Size of the file before HDF5 wrote to it, and the offset up to which its old content is gone.
  std::int64_t old_size_, cleared_ = 0;
  std::span<const std::byte> old_;
  std::vector<ByteRange> unchanged_;
  // File offset up to which the kernel has been asked to write back data.
  std::int64_t written_back_ = 0;
  std::string error_;
  std::array<std::vector<std::byte>, 2> staging_;
  std::size_t turn_ = 0;
  // Background writer. It is the last member, so that its thread ends before the members that the
  // thread uses are destroyed.
  BackgroundWork behind_;
};

}  // namespace trireme
