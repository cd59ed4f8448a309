#include "lib/io/fletcher32.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lib/base/rng.hpp"

namespace trireme {

// The algorithm as HDF5 states it: big-endian words, end-around carry after each addition.
static std::uint32_t slow_fletcher(std::span<const std::byte> bytes) {
  std::uint32_t a = 0, b = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    a += static_cast<std::uint32_t>(bytes[i]) << 8 | static_cast<std::uint32_t>(bytes[i + 1]);
    a = (a & 0xffff) + (a >> 16);
    b += a;
    b = (b & 0xffff) + (b >> 16);
  }
  return b << 16 | a;
}

TEST(Fletcher32, MatchesOneWordAtATime) {
  for (std::size_t size : {0, 2, 62, 64, 66, 16'384, 16'386, 100'002, 1'000'000}) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(mix64(i));
    Fletcher32 whole, pieces, zeros, ones;
    whole.update(bytes);
    pieces.update(std::span(bytes).first(size / 4 * 2));
    pieces.update(std::span(bytes).subspan(size / 4 * 2));
    EXPECT_EQ(whole.digest(), slow_fletcher(bytes)) << size;
    EXPECT_EQ(pieces.digest(), slow_fletcher(bytes)) << size;
    std::ranges::fill(bytes, std::byte{0});
    zeros.update(bytes);
    EXPECT_EQ(zeros.digest(), 0u);
    std::ranges::fill(bytes, std::byte{0xff});  // the largest sums, and all of them 0 modulo 65535
    ones.update(bytes);
    EXPECT_EQ(ones.digest(), slow_fletcher(bytes)) << size;
  }
}

}  // namespace trireme
