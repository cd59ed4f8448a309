#include "lib/io/event_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

std::string bytes(std::initializer_list<int> all) {
  std::string s;
  for (const int b : all) s += static_cast<char>(b);
  return s;
}

// RFC 3720, B.4, and the check value of CRC-32C.
TEST(EventFile, ChecksumsAreCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43U);
}

// The first record of every file of TensorFlow's writer is of 24 bytes, and its length's checksum
// is known.
TEST(EventFile, TheFirstRecordHasKnownBytes) {
  const auto record = tf_record(version_event(1));
  EXPECT_EQ(record.substr(0, 8), bytes({0x1a, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(record.size(), 8 + 4 + 0x1a + 4U);
  EXPECT_EQ(record.substr(12, 11), bytes({0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x10, 0}));
  EXPECT_EQ(record.substr(23, 15),
            "\x1a\x0d"
            "brain.Event:2");
}

TEST(EventFile, AScalarHasKnownBytes) {
  const std::array<Scalar, 1> one{{{"a", 1.0}}};
  // wall_time = 1 (field 1, fixed64), step = 300 (field 2, varint), summary (5) of a value (1) with
  // tag "a" (1) and simple_value 1.0F (2, fixed32).
  EXPECT_EQ(scalars_event(1, 300, one),
            bytes({0x09, 0,    0,    0,    0,    0,    0,   0xf0, 0x3f, 0x10, 0xac, 0x02,
                   0x2a, 0x0a, 0x0a, 0x08, 0x0a, 0x01, 'a', 0x15, 0,    0,    0x80, 0x3f}));
}

TEST(EventFile, ASecondProcessWritesIntoALaterFile) {
  const ScratchFolder folder;
  { EventFile first(folder.path() / "events", 0); }
  { EventFile second(folder.path() / "events", 4); }
  std::vector<std::string> names;
  for (const auto& e : std::filesystem::directory_iterator(folder.path() / "events"))
    names.push_back(e.path().filename().string());
  std::ranges::sort(names);
  ASSERT_EQ(names.size(), 2U);
  EXPECT_LT(names[0].substr(0, 30), names[1].substr(0, 30));
}

}  // namespace
}  // namespace trireme
