// A file of scores comes back as it was written, or not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/base/posix_file.hpp"
#include "lib/io/scores_file.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/scratch.hpp"

// HDF5 asks for what a damaged object header says, up to 2^63 bytes, before it looks at the file,
// and reports it where there is not so much memory; AddressSanitizer would end the program.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}

namespace trireme {
namespace {

using testing::HasSubstr;

ReferenceLosses some_scores(const std::string& path) {
  ReferenceLosses all{path, "0123", "runs/base/checkpoints/step-00000012", "f64", 64, {}};
  for (int i = 0; i < 12; ++i) {
    auto& f = all.files.emplace_back(
        FileLosses{fmt::format("folder/{}.tokens", i), fmt::format("id {}", i), {}, {}, {}});
    for (int d = 0; d < 2 * (i + 1); ++d) {
      f.begin_D.push_back((std::int64_t{1} << 40) + d * 7);
      f.inputs_D.push_back(6);
      f.loss_D.push_back(std::sqrt(d + i));
    }
  }
  return all;
}

TEST(ScoresFile, ComesBack) {
  const ScratchFolder scratch;
  const auto path = (scratch / "deep/pairs.scores");
  const auto scores = some_scores(path);
  write_scores(path, scores);
  EXPECT_EQ(read_scores(path), scores);
  EXPECT_THAT(message_of<Error>([&] { write_scores(path, scores); }), HasSubstr("remove it first"));
  EXPECT_THAT(message_of<Error>([&] { read_scores(scratch / "none"); }),
              HasSubstr("make it with `trireme score`"));
}

// Extents and sizes of the datasets say 2^40 elements: nothing of that size is asked for.
TEST(ScoresFile, HasNoMoreThanItsBytes) {
  const ScratchFolder scratch;
  const auto path = (scratch / "pairs.scores");
  auto scores = some_scores(path);
  scores.files.resize(1);
  constexpr std::uint64_t documents = 1234;
  auto& file = scores.files[0];
  file.begin_D.assign(documents, 1);
  file.inputs_D.assign(documents, 1);
  file.loss_D.assign(documents, 1);
  write_scores(path, scores);
  auto bytes = read_text(path);
  const auto replace = [&](std::uint64_t number, std::uint64_t other) {
    const std::string_view from(reinterpret_cast<const char*>(&number), sizeof number),
        to(reinterpret_cast<const char*>(&other), sizeof other);
    int found = 0;
    for (auto at = bytes.find(from); at != std::string::npos;
         at = bytes.find(from, at + 8), ++found)
      bytes.replace(at, to.size(), to);
    return found;
  };
  EXPECT_GE(replace(documents, std::uint64_t{1} << 40), 3);
  EXPECT_GE(replace(documents * 8, std::uint64_t{8} << 40), 3);
  scratch.write("pairs.scores", bytes);
  EXPECT_THAT(message_of<Error>([&] { read_scores(path); }), HasSubstr("are not what it says"));
}

// Any byte may be another one: what is read then is what was written, or nothing.
TEST(ScoresFile, IsNotReadWhereItIsDamaged) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP()
      << "HDF5 1.10 itself reads beyond its buffers where the metadata of a file is damaged";
#endif
  const ScratchFolder scratch;
  const auto path = (scratch / "pairs.scores");
  auto scores = some_scores(path);
  scores.files.resize(1);
  write_scores(path, scores);
  const auto bytes = read_text(path);
  int refused = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 7) {
    auto other = bytes;
    other[at] = static_cast<char>(other[at] ^ 0x10);
    scratch.write("pairs.scores", other);
    try {
      auto read = read_scores(path);
      read.checkpoint = scores.checkpoint;  // names are for messages alone
      read.files[0].file = scores.files[0].file;
      EXPECT_EQ(read, scores) << at;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 20);
  for (const std::size_t length : {std::size_t{0}, std::size_t{100}, bytes.size() - 1}) {
    scratch.write("pairs.scores", bytes.substr(0, length));
    EXPECT_THROW(read_scores(path), Error) << length;
  }
}

}  // namespace
}  // namespace trireme
