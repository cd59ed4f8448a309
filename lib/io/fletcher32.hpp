#pragma once
// The checksum of HDF5's fletcher32 filter, computed over bytes that arrive in pieces of even
// length (J. G. Fletcher, "An arithmetic checksum for serial transmissions", 1982). HDF5's own loop
// processes one word at a time, which would halve the speed of a save. This implementation is
// vectorized.
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

// A fletcher32 checksum of bytes that arrive in pieces.
class Fletcher32 {
 public:
  void update(std::span<const std::byte>);
  std::uint32_t digest() const;

 private:
  // Sum of the little-endian words, and sum of these sums. The value 0 means that all bits were
  // zero. Otherwise the sums are in 1..65535, because the end-around carry of HDF5's loop never
  // turns a nonzero sum into zero.
  std::uint64_t first_ = 0, second_ = 0;
};

}  // namespace trireme
