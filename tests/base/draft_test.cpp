#include "lib/base/draft.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"

namespace trireme {

namespace fs = std::filesystem;

class DraftTest : public testing::Test {
 protected:
  void SetUp() override {
    auto name = (fs::temp_directory_path() / "draft-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const fs::path& path) const {
    std::ofstream(path) << "text";
    return path;
  }
  // ".NAME.partial.SPACE." of this process's drafts.
  std::string begin_of(const std::string& name) const {
    const auto own = Draft(folder_ / name).path().string();
    return own.substr(0, own.rfind('.') + 1);
  }

  fs::path folder_;
};

static int number_of_a_dead_process() {
  const int child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST_F(DraftTest, AppearsByOneRename) {
  {
    Draft draft(folder_ / "new/out");
    write(draft.path());
    EXPECT_FALSE(fs::exists(folder_ / "new/out"));
    draft.publish();
  }
  EXPECT_EQ(read_text(folder_ / "new/out"), "text");
  { write(Draft(folder_ / "lost").path()); }
  EXPECT_THROW(Draft(folder_ / "new/out"), Error);
  Draft replacing(folder_ / "new/out", ExistingFile::replaced);
  std::ofstream(replacing.path()) << "other";
  replacing.publish();
  EXPECT_EQ(read_text(folder_ / "new/out"), "other");
}

TEST_F(DraftTest, WhatCameMeanwhileStays) {
  Draft draft(folder_ / "out");
  std::ofstream(draft.path()) << "mine";
  write(folder_ / "out");
  EXPECT_THROW(draft.publish(), Error);
  EXPECT_EQ(read_text(folder_ / "out"), "text");
}

TEST_F(DraftTest, RemovesWhatDeadProcessesOfThisHostLeft) {
  const auto begin = begin_of("out");
  const fs::path dead = begin + std::to_string(number_of_a_dead_process());
  fs::create_directory(dead);
  write(dead / "model.safetensors");
  const auto alive = write(begin + std::to_string(::getppid()));
  auto elsewhere = begin;
  elsewhere[elsewhere.size() - 2] = elsewhere[elsewhere.size() - 2] == '0' ? '1' : '0';
  const auto of_another_host = write(elsewhere + std::to_string(number_of_a_dead_process()));
  const auto earlier_version = write(folder_ / ".out.partial.1");
  const auto not_ours = write(folder_ / ".out.partial.txt");
  const auto of_another_target = write(begin_of("out2") + std::to_string(::getppid()));

  const Draft draft(folder_ / "out");

  EXPECT_FALSE(fs::exists(dead));
  for (const auto& path : {alive, of_another_host, earlier_version, not_ours, of_another_target})
    EXPECT_TRUE(fs::exists(path)) << path;
}

TEST_F(DraftTest, TwoOfOneProcessAreRefused) {
  const Draft first(folder_ / "out");
  write(first.path());
  EXPECT_THROW(Draft(folder_ / "out"), Error);
  const Draft second(folder_ / "out", ExistingFile::stays, ".mask");
  EXPECT_TRUE(fs::exists(first.path()));
}

TEST_F(DraftTest, ASignalRemovesThemAndEndsTheProcess) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const int child = ::fork();
    if (child == 0) {
      std::signal(number, SIG_DFL);  // shells start what is in the background with some ignored
      ::alarm(20);
      remove_drafts_on_signals();
      const Draft draft(folder_ / "out");
      fs::create_directory(draft.path());
      for (int i = 0;; ++i) {
        std::ofstream(draft.path() / std::to_string(i)) << "text";
        if (i == 10) (void)!::write(ready[1], "x", 1);
        ::usleep(1000);
      }
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    ::kill(child, number);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << status;
    EXPECT_TRUE(fs::is_empty(folder_));
    ::close(ready[0]);
    ::close(ready[1]);
  }
}

// Behind a link ".." leads elsewhere than its text says.
TEST_F(DraftTest, IsBesideItsTargetBehindALink) {
  fs::create_directories(folder_ / "far/inner");
  fs::create_directory(folder_ / "near");
  fs::create_directory_symlink(folder_ / "far/inner", folder_ / "near/link");
  write(folder_ / "near/out");
  Draft draft(folder_ / "near/link/../out");
  std::ofstream(draft.path()) << "mine";
  draft.publish();
  EXPECT_EQ(read_text(folder_ / "near/out"), "text");
  EXPECT_EQ(read_text(folder_ / "far/out"), "mine");
}

TEST_F(DraftTest, OfALongNameFits) {
  Draft draft(folder_ / std::string(250, 'n'));
  write(draft.path());
  draft.publish();
  EXPECT_EQ(read_text(folder_ / std::string(250, 'n')), "text");
}

TEST_F(DraftTest, AnIgnoredSignalStaysIgnored) {
  const int child = ::fork();
  if (child == 0) {
    std::signal(SIGHUP, SIG_IGN);
    remove_drafts_on_signals();
    ::kill(::getpid(), SIGHUP);
    ::_exit(7);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

}  // namespace trireme
