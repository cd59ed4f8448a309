#include "lib/io/run_starts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RunStarts, KeepThoseWhoseSamplesTheRunHasRead) {
  const ScratchFolder folder;
  const auto& run = folder.path();
  EXPECT_THAT(read_starts(run), IsEmpty());
  const RunStart first{0, 0, 0, R"({"files":[]})", "5a", "[train]\nseed = 1\n"}, second{8, 32, 256},
      rolled_back{6, 48, 192}, again{6, 24, 192};
  add_start(run, first, EarlierStarts::kept);
  add_start(run, second, EarlierStarts::kept);
  add_start(run, rolled_back, EarlierStarts::kept);  // leaves the samples of `second` out
  EXPECT_THAT(read_starts(run), ElementsAre(first, second, rolled_back));
  add_start(run, rolled_back, EarlierStarts::kept);  // has read no sample
  EXPECT_THAT(read_starts(run), ElementsAre(first, second, rolled_back));
  add_start(run, again, EarlierStarts::kept);
  EXPECT_THAT(read_starts(run), ElementsAre(first, again));
  add_start(run, second, EarlierStarts::dropped);
  EXPECT_THAT(read_starts(run), ElementsAre(second));
}

TEST(RunStarts, BeginAgainIfTheFileIsDamaged) {
  const ScratchFolder folder;
  for (const char* text : {"", "[]", "{\"starts\": 1}", "{\"starts\": [{\"step\": 1}]}",
                           R"({"starts": [{"step": -1, "samples": 0, "tokens": 0, "phases": "",
                       "token_files": "", "deck": ""}]})"}) {
    replace_atomically(folder.path() / "starts.json", text);
    EXPECT_THROW(read_starts(folder.path()), DamagedStarts) << text;
  }
  const RunStart start{4, 16, 128};
  add_start(folder.path(), start, EarlierStarts::kept);
  EXPECT_THAT(read_starts(folder.path()), ElementsAre(start));
  EXPECT_TRUE(is_there(folder.path() / "starts.json.damaged"));
}

TEST(RunStarts, StayIfTheFileCannotBeRead) {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder.path() / "starts.json");  // reading a directory fails
  EXPECT_THROW(add_start(folder.path(), {4, 16, 128}, EarlierStarts::kept), Error);
  EXPECT_TRUE(std::filesystem::is_directory(folder.path() / "starts.json"));
}

}  // namespace
}  // namespace trireme
