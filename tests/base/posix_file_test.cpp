#include "lib/base/posix_file.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "lib/base/error.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(PosixFile, AllBytesAreRead) {
  const ScratchFolder folder;
  const std::string bytes("a\0\r\n\xff", 5);
  folder.write("file", bytes);
  EXPECT_EQ(read_text(folder / "file"), bytes);
}

TEST(PosixFile, WhatIsNoFileIsNamed) {
  const ScratchFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const auto refusal = [&](const char* name) {
    return message_of([&] { read_text(folder / name); });
  };
  EXPECT_THAT(refusal("."), HasSubstr("it is not a regular file"));
  EXPECT_THAT(refusal("pipe"), AllOf(HasSubstr("pipe"), HasSubstr("it is not a regular file")));
  EXPECT_THAT(refusal("missing"), HasSubstr("No such file"));
}

TEST(PosixFile, ANameWithANulIsNotThatOfItsBeginning) {
  const ScratchFolder folder;
  folder.write("file", "text");
  const auto name = folder / "file" + std::string("\0.h5", 4);
  EXPECT_THAT(message_of([&] { read_text(name); }), HasSubstr("file\\x00.h5: Invalid argument"));
  EXPECT_FALSE(is_plain_name(std::string_view("a\0", 2)));
  for (const auto* other : {"", ".", "..", "a/b"}) EXPECT_FALSE(is_plain_name(other)) << other;
  EXPECT_TRUE(is_plain_name(".a b"));
}

}  // namespace
}  // namespace trireme
