#pragma once
// The checksum of HDF5's fletcher32 filter over bytes that arrive in pieces of even length
// (J. G. Fletcher, "An arithmetic checksum for serial transmissions", 1982). HDF5's own loop takes
// one word at a time, which would halve the speed of a save; this one vectorises.
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

class Fletcher32 {
 public:
  void update(std::span<const std::byte>);
  std::uint32_t digest() const;

 private:
  // Sums of the little-endian words and of those sums, kept as 0 for "no bit was set" and else in
  // 1..65535: the end-around carry of HDF5's loop never turns a non-zero sum into zero.
  std::uint64_t first_ = 0, second_ = 0;
};

}  // namespace trireme
