#include "lib/data/same_files.hpp"

#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {

// What differs, by name.
static std::string differing(const TokenFile& a, const TokenFile& b) {
  const auto one = identity_of(a), other = identity_of(b);
  std::string names;
  for (std::size_t i = 0; i < one.size(); ++i)
    if (one[i] != other[i]) names += (names.empty() ? "" : ", ") + one[i].first;
  return names;
}

class SameFiles : public testing::Test {
 protected:
  TokenFile file(const std::string& name, const std::vector<std::int32_t>& ids,
                 const TokenFileOptions& o = {}) {
    return TokenFile(write_token_file(scratch / name, ids, o));
  }
  // The same without hashes, as other programs write it.
  void forget_hashes(const std::string& name) {
    std::fstream f(scratch / name, std::ios::in | std::ios::out | std::ios::binary);
    const std::string zeros(16, '\0');
    for (const auto at : {72, 240}) f.seekp(at).write(zeros.data(), 16);
  }
  ScratchFolder scratch;
};

TEST_F(SameFiles, CopiesAreAlikeAndAllElseIsNot) {
  const auto ids = counting(1000);
  const auto a = file("a", ids);
  EXPECT_EQ(differing(a, file("copy", ids)), "");
  auto changed = ids;
  std::swap(changed[3], changed[4]);
  EXPECT_EQ(differing(a, file("b", changed)), "hash of its contents");
  EXPECT_EQ(differing(a, file("c", counting(1001))), "size, tokens, hash of its contents");
  EXPECT_EQ(differing(a, file("d", ids, {.vocab = 300})), "vocabulary");
  EXPECT_EQ(differing(a, file("e", ids, {.separator = 0})), "separator");
}

TEST_F(SameFiles, ContentsWithoutAHashAreReadWhole) {
  auto ids = counting(5000);
  write_token_file(scratch / "a", ids);
  ++ids[2500];
  write_token_file(scratch / "b", ids);
  forget_hashes("a");
  forget_hashes("b");
  EXPECT_EQ(differing(TokenFile(scratch / "a"), TokenFile(scratch / "b")),
            "hash of blocks of its contents");
  EXPECT_EQ(differing(TokenFile(scratch / "a"), TokenFile(scratch / "a")), "");
}

TEST_F(SameFiles, BlocksAreReadOnce) {
  write_token_file(scratch / "a", counting(5000));
  forget_hashes("a");
  const TokenFile file(scratch / "a"), copy = file;
  const auto before = identity_of(file);
  std::fstream(scratch / "a", std::ios::in | std::ios::out | std::ios::binary).seekp(300).put('x');
  EXPECT_EQ(identity_of(copy), before);
  EXPECT_NE(identity_of(TokenFile(scratch / "a")), before);
}

// 80 MB of zeros, which take no place on the disk: blocks from the first to the last byte, 0.2 MB
// apart.
TEST_F(SameFiles, LongContentsAreSampled) {
  TokenFileHeader header;
  header.count = 40'000'000;
  header.vocab = 256;
  for (const char* name : {"a", "b"}) {
    const auto bytes = header.encoded();
    scratch.write(name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    std::filesystem::resize_file(scratch / name, static_cast<std::size_t>(header.file_bytes()));
  }
  const auto set = [&](std::int64_t at, std::size_t n, char value) {
    std::fstream(scratch / "b", std::ios::in | std::ios::out | std::ios::binary)
        .seekp(at)
        .write(std::string(n, value).data(), static_cast<std::streamsize>(n));
  };
  // Opened anew each time, because a TokenFile hashes its blocks once.
  const auto differing_now = [&] {
    return differing(TokenFile(scratch / "a"), TokenFile(scratch / "b"));
  };
  ASSERT_EQ(differing_now(), "");
  const std::int64_t end = header.file_bytes(), wide = 250'000;
  for (const auto& [at, n] : {std::pair<std::int64_t, std::int64_t>{256, 1},
                              {end - 1, 1},
                              {end / 2, wide},
                              {end / 3, wide},
                              {end - wide, wide}}) {
    set(at, static_cast<std::size_t>(n), 1);
    EXPECT_EQ(differing_now(), "hash of blocks of its contents") << at;
    set(at, static_cast<std::size_t>(n), 0);
  }
  EXPECT_EQ(differing_now(), "");
}

}  // namespace trireme
