// Mutated token files open or are refused with an Error; nothing else happens. Seeded, so that a
// failure comes again.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "lib/base/error.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

void use_all_of(const TokenFile& file) {
  const std::int64_t n = file.count();
  std::vector<std::int32_t> ids(static_cast<std::size_t>(n));
  try {
    file.read(0, ids);
  } catch (const Error&) {
  }
  if (n > 0) (void)(is_target(file, 0) != is_target(file, n - 1));
  (void)file.tokenizer().identity();
  EXPECT_EQ(std::ssize(file.labels()),
            file.header().kind == Documents::labeled ? file.header().documents / 2 : 0);
  try {
    EXPECT_EQ(std::ssize(file.weights(n / 2, n - n / 2)), n - n / 2);
  } catch (const Error&) {
  }
  file.verify();
}

std::string mutated(std::string bytes, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  constexpr std::uint64_t corners[] = {0,          1,          2,          255,  65536,
                                       1ULL << 31, 1ULL << 62, 1ULL << 63, ~0ULL};
  constexpr std::size_t fields[] = {8,  12, 16, 24, 32,  40,  48,  56, 60,
                                    64, 72, 88, 96, 100, 104, 112, 240};
  for (std::size_t edits = 1 + below(4); edits > 0 && bytes.size() >= 256; --edits) {
    switch (below(4)) {
      case 0:
        bytes[below(bytes.size())] ^= static_cast<char>(1U << below(8));
        break;
      case 1: {
        const std::uint64_t value = corners[below(std::size(corners))];
        std::memcpy(bytes.data() + fields[below(std::size(fields))], &value, 8);
        break;
      }
      case 2:
        bytes.resize(below(bytes.size() + 1));
        break;
      default:
        bytes.insert(below(bytes.size()), std::string(1 + below(9), static_cast<char>(random())));
    }
  }
  // A hash that no longer fits would hide everything behind it.
  if (below(4) != 0 && bytes.size() >= 256) std::memset(bytes.data() + 240, 0, 16);
  return bytes;
}

TEST(TokenFileFuzz, AMutatedFileOpensOrIsRefused) {
  const ScratchFolder scratch;
  const std::string plain = contents_of(write_token_file(scratch / "a", counting(50)));
  const std::string full = contents_of(
      write_token_file(scratch / "b", counting(77),
                       {.vocab = 70000,
                        .separator = 1,
                        .targets = std::vector<bool>(77, true),
                        .tokenizer = {TokenizerKind::sentencepiece, "some bytes", "a template"}}));
  const std::string labeled =
      contents_of(write_token_file(scratch / "l", counting(60),
                                   {.separator = 1,
                                    .targets = std::vector<bool>(60, true),
                                    .tokenizer = {TokenizerKind::bytes, "", "a template"},
                                    .labels = std::vector<bool>(19, true)}));
  const std::string weighted = contents_of(
      write_token_file(scratch / "w", counting(60),
                       {.separator = 1, .weights = {{2, 0.5F}, {30, 4}, {31, 1}, {60, 2}}}));
  std::mt19937_64 random(20240607);
  int opened = 0, refused = 0;
  for (int i = 0; i < 2400; ++i) {
    const std::string file = scratch.write("c", mutated(i % 4 == 0   ? plain
                                                        : i % 4 == 1 ? full
                                                        : i % 4 == 2 ? labeled
                                                                     : weighted,
                                                        random));
    try {
      use_all_of(TokenFile(file));
      ++opened;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(file), std::string::npos) << e.what();
      ++refused;
    }
  }
  // Both ways are taken often, or the mutations are too weak or too strong to test anything.
  EXPECT_GT(opened, 20);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace trireme
