#include "lib/base/mapped_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <span>

#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

bool has_text(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

TEST(MappedFile, ShowsAndChangesTheFile) {
  ScratchFolder folder;
  const auto path = folder.write("file", "0123456789");
  {
    const MappedFile mapped(PosixFile::open_to_write(path));  // the file itself is closed
    ASSERT_EQ(mapped.bytes().size(), 10U);
    EXPECT_EQ(std::memcmp(mapped.bytes().data(), "0123456789", 10), 0);
    mapped.bytes()[3] = std::byte{'x'};
  }
  EXPECT_EQ(contents_of(path), "012x456789");
}

TEST(MappedFile, MayBeEmpty) {
  ScratchFolder folder;
  EXPECT_TRUE(MappedFile(PosixFile::open_to_write(folder.write("file", ""))).bytes().empty());
}

TEST(MappedFile, ReservedSpaceIsNewOrThatOfTheOldFile) {
  ScratchFolder folder;
  const auto path = folder.path() / "file";
  auto file = reserve_file(path, 100000);
  EXPECT_EQ(file.size(), 100000);
  const auto blocks = file.status().st_blocks;
  EXPECT_GE(blocks * 512, 100000);
  file.write_at(std::as_bytes(std::span("0123", 4)), 0);
  EXPECT_EQ(reserve_file(path, 3).size(), 3);
  const auto longer = reserve_file(path, 5000);
  EXPECT_EQ(longer.size(), 5000);
  EXPECT_EQ(longer.status().st_ino, file.status().st_ino);
  EXPECT_EQ(contents_of(path).substr(0, 4), std::string("012\0", 4));
  EXPECT_EQ(reserve_file(folder.path() / "empty", 0).size(), 0);
}

// No file is left that looks as if it had been written. A limit stands in for a full disk.
TEST(MappedFile, WithoutSpaceIsRemoved) {
  ScratchFolder folder;
  const auto path = folder.path() / "file";
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto text = message_of([&] { reserve_file(path, 100000); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(has_text(text, "cannot write")) << text;
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace trireme
