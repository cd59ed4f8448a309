#include "lib/data/token_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <filesystem>
#include <functional>

#include <cstdlib>
#include <cstring>

#include "lib/base/error.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

TEST(TokenFile, KeepsTokensOfBothWidths) {
  const ScratchFolder scratch;
  for (const std::int64_t vocab : {256, 65536, 65537, 200000}) {
    const std::vector<std::int32_t> ids = {0, 7, static_cast<std::int32_t>(vocab - 1), 3};
    const TokenFile file(write_token_file(scratch / "a", ids, {.vocab = vocab, .separator = 3}));
    EXPECT_EQ(all_ids(scratch / "a"), ids);
    EXPECT_EQ(file.header().token_bytes, vocab > 65536 ? 4 : 2);
    EXPECT_EQ(file.header().vocab, vocab);
    EXPECT_EQ(file.header().largest, vocab - 1);
    EXPECT_EQ(file.header().separator, 3);
    EXPECT_FALSE(file.header().has_mask);
    EXPECT_TRUE(is_target(file, 1));
    EXPECT_EQ(file.verify(), Verified::hash_and_ids);
  }
}

TEST(TokenFile, KeepsTheMaskAndTheTokenizer) {
  const ScratchFolder scratch;
  const TokenizerSpec model{TokenizerKind::sentencepiece, std::string("not\0a model", 11)};
  for (const std::size_t n : {1, 7, 8, 9, 1000}) {
    std::vector<bool> targets;
    for (std::size_t i = 0; i < n; ++i) targets.push_back(i % 3 == 0 || i % 7 == 2);
    write_token_file(scratch / "a", counting(static_cast<std::int64_t>(n)),
                     {.targets = targets, .tokenizer = model});
    const TokenFile file(scratch / "a");
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(is_target(file, static_cast<std::int64_t>(i)), targets[i]);
    }
    EXPECT_EQ(file.tokenizer(), model);
    EXPECT_EQ(file.verify(), Verified::hash_and_ids);
  }
}

// Older programs read a file without one, and name the version of one that has it.
TEST(TokenFile, KeepsTheChatTemplate) {
  const ScratchFolder scratch;
  for (const auto kind : {TokenizerKind::bytes, TokenizerKind::sentencepiece}) {
    const TokenizerSpec with{kind, kind == TokenizerKind::bytes ? "" : "a model", "begin = \"\"\n"};
    write_token_file(scratch / "a", counting(100),
                     {.targets = std::vector<bool>(100, true), .tokenizer = with});
    const TokenFile file(scratch / "a");
    EXPECT_EQ(file.tokenizer(), with);
    EXPECT_EQ(file.verify(), Verified::hash_and_ids);
    EXPECT_EQ(contents_of(scratch / "a")[8], 2);
    EXPECT_EQ(contents_of(write_token_file(scratch / "b", counting(100)))[8], 1);
  }
}

// The python block of docs/token_file.md is run as it stands.
TEST(TokenFile, ReadsWhatTheDocumentedNumpyWrites) {
  const std::string page = contents_of("docs/token_file.md");
  const std::size_t begin = page.find("```python\n");
  ASSERT_NE(begin, std::string::npos) << "run from the root of the project";
  const std::size_t code = begin + 10, end = page.find("```", code);
  std::string python;
  for (const char* candidate : {"python3", "/usr/bin/python3"}) {
    const std::string probe = std::string(candidate) + " -c 'import numpy' 2>/dev/null";
    if (std::system(probe.c_str()) == 0) python = candidate;
  }
  if (python.empty()) GTEST_SKIP() << "no python3 with numpy";
  const ScratchFolder scratch;
  scratch.write("write.py", page.substr(code, end - code));
  ASSERT_EQ(std::system(("cd " + scratch.path().string() + " && " + python + " write.py").c_str()),
            0);
  const TokenFile file(scratch / "numpy.tokens");
  EXPECT_EQ(all_ids(scratch / "numpy.tokens"), (std::vector<std::int32_t>{5, 17, 42, 0, 99, 3, 0}));
  EXPECT_EQ(file.header().vocab, 50257);
  EXPECT_EQ(file.header().separator, 0);
  EXPECT_EQ(file.verify(), Verified::ids_only);
}

}  // namespace
}  // namespace trireme
