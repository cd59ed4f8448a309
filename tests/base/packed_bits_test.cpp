#include "lib/base/packed_bits.hpp"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(PackedBits, HaveTheLowestBitOfEachByteFirst) {
  PackedBits bits;
  bits.append(std::vector<std::uint8_t>{1, 0, 0});
  bits.append({});
  bits.append(std::vector<std::uint8_t>{1, 0, 1, 0, 1, 1, 1});
  EXPECT_EQ(bits.count, 10);
  EXPECT_EQ(bits.bytes, (std::vector<std::byte>{std::byte{0xa9}, std::byte{0x03}}));
}

TEST(PackedBits, AreReadFromAnyBit) {
  const std::vector<std::byte> bytes = {std::byte{0xa9}, std::byte{0x83}, std::byte{0}};
  EXPECT_EQ(unpacked_bits<bool>(bytes, 5, 6), (std::vector<bool>{1, 0, 1, 1, 1, 0}));
  EXPECT_EQ(unpacked_bits<std::uint8_t>(bytes, 15, 2), (std::vector<std::uint8_t>{1, 0}));
  EXPECT_TRUE(unpacked_bits<bool>({}, 0, 0).empty());
}

TEST(PackedBits, TakeTheBytesThatTheyNeed) {
  EXPECT_EQ(bytes_of_bits(0), 0);
  EXPECT_EQ(bytes_of_bits(1), 1);
  EXPECT_EQ(bytes_of_bits(8), 1);
  EXPECT_EQ(bytes_of_bits(9), 2);
}

}  // namespace
}  // namespace trireme
