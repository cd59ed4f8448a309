// A file of scores comes back as it was written, or not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/base/hash.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/io/scores_file.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;

constexpr std::size_t trailer_bytes = 42;

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
              HasSubstr("create it with `trireme score`"));
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
  bytes.resize(bytes.size() - trailer_bytes);
  scratch.write("pairs.scores", bytes + "xxh3_128 " + to_string(hash128(bytes)) + "\n");
  EXPECT_THAT(message_of<Error>([&] { read_scores(path); }), HasSubstr("has a wrong size"));
}

// Any byte may be another one: HDF5, which reads beyond its buffers then, does not see the file.
TEST(ScoresFile, IsNotReadWhereItIsDamaged) {
  const ScratchFolder scratch;
  const auto path = (scratch / "pairs.scores");
  auto scores = some_scores(path);
  scores.files.resize(1);
  write_scores(path, scores);
  const auto bytes = read_text(path);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto other = bytes;
    other[at] = static_cast<char>(other[at] ^ 0x10);
    scratch.write("pairs.scores", other);
    EXPECT_THROW(read_scores(path), Error) << at;
  }
  for (const std::size_t length : {std::size_t{0}, std::size_t{9}, std::size_t{100},
                                   bytes.size() - trailer_bytes - 1, bytes.size() - 1}) {
    scratch.write("pairs.scores", bytes.substr(0, length));
    EXPECT_THROW(read_scores(path), Error) << length;
  }
}

// As earlier versions wrote it: HDF5 could read it, but nothing says that it is whole.
TEST(ScoresFile, IsMadeAgainIfItHasNoHash) {
  const ScratchFolder scratch;
  const auto path = (scratch / "pairs.scores");
  write_scores(path, some_scores(path));
  const auto bytes = read_text(path);
  EXPECT_EQ(
      bytes.substr(bytes.size() - trailer_bytes),
      "xxh3_128 " +
          to_string(hash128(std::string_view(bytes).substr(0, bytes.size() - trailer_bytes))) +
          "\n");
  scratch.write("pairs.scores", bytes.substr(0, bytes.size() - trailer_bytes));
  EXPECT_TRUE(is_hdf5_file(path));
  EXPECT_THAT(message_of<Error>([&] { read_scores(path); }),
              HasSubstr("make it again with `trireme score`"));
}

}  // namespace
}  // namespace trireme
