#pragma once
// Bits in bytes, the lowest bit of each byte first.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

// Bits that are appended one after another. The unused bits of the last byte are 0.
struct PackedBits {
  std::vector<std::byte> bytes;
  std::int64_t count = 0;

  // Appends bits, each of which is 0 or 1.
  void append(std::span<const std::uint8_t> bits) {
    for (const std::uint8_t bit : bits) {
      if (count % 8 == 0) bytes.push_back(std::byte{0});
      bytes.back() |= std::byte{bit} << (count % 8);
      ++count;
    }
  }
};

// Returns the number of bytes that contain this number of bits.
constexpr std::int64_t bytes_of_bits(std::int64_t count) {
  return (count + 7) / 8;
}

// Returns the bits [begin, begin + count) of `bytes`.
template <class Bit>
std::vector<Bit> unpacked_bits(std::span<const std::byte> bytes, std::int64_t begin,
                               std::int64_t count) {
  std::vector<Bit> bits(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const auto bit = static_cast<std::size_t>(begin) + i;
    bits[i] = static_cast<Bit>(std::to_integer<unsigned>(bytes[bit / 8]) >> (bit % 8) & 1U);
  }
  return bits;
}

}  // namespace trireme
