#pragma once
// RAII handles for HDF5 identifiers, and HDF5 calls that throw Error. Packaged HDF5 libraries are
// not thread-safe, so only one thread at a time may use them. For writers, Hdf5Sink sees to that.
#include <hdf5.h>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme {

// Throws Error with the name of the call, the name of the file and HDF5's own messages.
[[noreturn]] void fail_hdf5(std::string_view call, const std::filesystem::path& file);
// Stops HDF5 from printing its errors to stderr. All functions that use HDF5 must call this
// function first.
void silence_hdf5();

// Returns the result of an HDF5 call. Throws Error if the result is negative, which is how HDF5
// calls report failure.
template <class T>
T hdf5_ok(T result, std::string_view call, const std::filesystem::path& file) {
  if (result < 0) fail_hdf5(call, file);
  return result;
}

// Owner of an HDF5 identifier. The destructor closes the identifier.
class Hdf5Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Hdf5Handle(hid_t id, Close close, std::string_view call, const std::filesystem::path& file)
      : id_(hdf5_ok(id, call, file)), close_(close) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Hdf5Handle() {
    if (id_ >= 0) close_(id_);
  }

  operator hid_t() const { return id_; }
  // Closes the identifier early. Throws Error if closing fails.
  void close(std::string_view call, const std::filesystem::path& file) {
    hdf5_ok(close_(std::exchange(id_, H5I_INVALID_HID)), call, file);
  }

 private:
  hid_t id_;
  Close close_;
};

// Opens a file for reading. Does not lock it, because some file systems do not support locks.
// Throws Error if the file is not an HDF5 file.
Hdf5Handle open_hdf5(const std::filesystem::path& file);
// Creates a dataspace with these extents. Without extents, the dataspace holds a single value.
Hdf5Handle hdf5_space(std::span<const hsize_t> extents, const std::filesystem::path& file);
Hdf5Handle create_group(hid_t place, const std::string& name, const std::filesystem::path& file);
Hdf5Handle create_dataset(hid_t place, const std::string& name, hid_t type, hid_t space,
                          hid_t properties, const std::filesystem::path& file);

}  // namespace trireme
