#include "lib/io/fletcher32.hpp"

#include <cstring>

#include "lib/base/error.hpp"

namespace trireme {

constexpr std::uint64_t modulus = 65535;

static std::uint64_t fold(std::uint64_t x) {
  return x == 0 ? 0 : (x - 1) % modulus + 1;
}

void Fletcher32::update(std::span<const std::byte> bytes) {
  expect(bytes.size() % 2 == 0, "fletcher32 takes whole 16-bit words");
  // Word k * lanes + l of a block is added to lane l. With at most 256 rows, the second sum of a
  // lane stays below 256 * 257 / 2 * 65535 < 2^32.
  constexpr std::size_t lanes = 32, rows = 256;
  const std::byte* p = bytes.data();
  std::size_t words = bytes.size() / 2;
  while (words >= lanes) {
    const std::size_t n = words / lanes < rows ? words / lanes : rows;
    std::uint32_t a[lanes] = {}, b[lanes] = {};
    for (std::size_t k = 0; k < n; ++k, p += 2 * lanes) {
      std::uint16_t w[lanes];
      std::memcpy(w, p, sizeof w);
      for (std::size_t l = 0; l < lanes; ++l) {
        a[l] += w[l];
        b[l] += a[l];
      }
    }
    std::uint64_t sum = 0, weighted = 0;
    for (std::size_t l = 0; l < lanes; ++l) {
      sum += a[l];
      weighted += lanes * std::uint64_t{b[l]} - l * std::uint64_t{a[l]};
    }
    second_ = fold(second_ + n * lanes * first_ + weighted);
    first_ = fold(first_ + sum);
    words -= n * lanes;
  }
  for (; words > 0; --words, p += 2) {
    std::uint16_t w;
    std::memcpy(&w, p, 2);
    first_ = fold(first_ + w);
    second_ = fold(second_ + first_);
  }
}

std::uint32_t Fletcher32::digest() const {
  // HDF5 reads big-endian words. Swapping the bytes of a word multiplies it by 256 modulo 65535.
  return static_cast<std::uint32_t>(fold(second_ * 256) << 16 | fold(first_ * 256));
}

}  // namespace trireme
