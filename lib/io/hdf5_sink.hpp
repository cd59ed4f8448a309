#pragma once
// Where HDF5 writes a checkpoint file: a virtual file driver over a PosixFile.
//
// Why a driver of our own: with the standard one, a full disk makes H5Fclose fail, the identifier
// stays open and the process may crash at exit. HDF5's in-memory driver avoids that but holds a
// second copy of the shard. This one streams, stores the first error and reports success to HDF5,
// which therefore always closes cleanly; `check()` then throws the error with its errno text.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/background_work.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/io/hdf5_handle.hpp"

namespace trireme {

class Hdf5Sink {
 public:
  // Borrows an empty file opened for reading and writing; must outlive the HDF5 file handle.
  explicit Hdf5Sink(PosixFile& file) : file_(&file) {}
  Hdf5Sink(const Hdf5Sink&) = delete;
  Hdf5Sink& operator=(const Hdf5Sink&) = delete;

  // A new HDF5 file in it, in the format that the oldest readers know.
  Hdf5Handle create();
  // Memory to fill for the next large write. There are two in turns: what HDF5 writes out of one
  // goes to the file in a thread while the caller fills the other.
  std::span<std::byte> staging(std::size_t bytes);
  // Throws the first error that a finished write met.
  void check() const;
  // Waits for the last write, then check().
  void finish();

  // Called by the driver.
  void write(std::span<const std::byte>, std::int64_t offset) noexcept;
  bool read(std::span<std::byte>, std::int64_t offset) noexcept;
  void resize(std::int64_t bytes) noexcept;
  std::int64_t end() const { return end_; }

 private:
  void keep(const std::exception&) noexcept;
  void store(std::span<const std::byte>, std::int64_t offset);
  void join() noexcept;

  PosixFile* file_;
  std::int64_t end_ = 0;           // as HDF5 must see it, also after a failed write
  std::int64_t written_back_ = 0;  // the kernel was asked to write up to here
  std::string error_;
  std::array<std::vector<std::byte>, 2> staging_;
  std::size_t turn_ = 0;
  BackgroundWork behind_;  // last: ends before what it uses
};

}  // namespace trireme
