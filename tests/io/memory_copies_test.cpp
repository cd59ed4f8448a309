#include "lib/io/memory_copies.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "lib/io/shard_file.hpp"
#include "tests/io/copies_on_a_node.hpp"

namespace trireme {
namespace {

using namespace test;
namespace fs = std::filesystem;

class MemoryCopies : public CopiesOnANode {
 protected:
  // A complete copy with one file.
  static void add(const fs::path& copies, std::int64_t step) {
    CopiesOnANode::add(copies, step, [&](const fs::path& directory) {
      std::ofstream(directory / shard_name(0)) << "shard " << step;
    });
  }
  static std::vector<std::int64_t> steps(const CopyOwner& o) {
    std::vector<std::int64_t> all;
    for (const auto& copy : held_copies(root(), o)) all.push_back(copy.step);
    return all;
  }

  CopyOwner earlier{"f00d", "4567"};
};

TEST_F(MemoryCopies, DirectoriesNameUserJobRunAndStart) {
  const auto user = folder.path() / ("trireme-" + std::to_string(::getuid()));
  EXPECT_EQ(copies_of(root(), owner, 0), user / "local/f00d/0123/node-0");
  setenv("SLURM_JOB_ID", "17", 1);
  EXPECT_EQ(copies_of(root(), owner, 0), user / "17/f00d/0123/node-0");
  setenv("SLURM_JOB_ID", "../17", 1);
  EXPECT_TRUE(contains(message_of([&] { copies_of(root(), owner, 0); }), "cannot be a file name"));
}

TEST_F(MemoryCopies, TheDirectoryMayNameVariablesAndTheNodeOfATest) {
  setenv("TRIREME_TEST_SHAPE", "b", 1);
  setenv("TRIREME_MEMORY_DIR", "/a/${TRIREME_TEST_SHAPE}", 1);
  const auto user = "trireme-" + std::to_string(::getuid());
  EXPECT_EQ(memory_root("").lexically_normal(), fs::path("/a/b") / user);
  EXPECT_EQ(memory_root("n1"), fs::path("/a/b/n1") / user);
  setenv("TRIREME_MEMORY_DIR", "a", 1);
  EXPECT_TRUE(contains(message_of([] { memory_root(""); }), "is not an absolute path"));
  setenv("TRIREME_MEMORY_DIR", "/a/${TRIREME_TEST_NONE_SUCH}", 1);
  EXPECT_TRUE(contains(message_of([] { memory_root(""); }), "TRIREME_MEMORY_DIR: "));
  unsetenv("TRIREME_TEST_SHAPE");
}

TEST_F(MemoryCopies, TheDirectoryIsOfThisUserAlone) {
  make_memory_root(root());
  struct stat s {};
  ASSERT_EQ(::lstat(root().c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0700U);
  EXPECT_NO_THROW(make_memory_root(root()));
  fs::remove(root());
  fs::create_directory_symlink("/tmp", root());
  EXPECT_TRUE(
      contains(message_of([&] { make_memory_root(root()); }), "is not a directory of this user"));
}

TEST_F(MemoryCopies, ACopyIsHeldOnceItIsComplete) {
  const auto copies = copies_of(root(), owner, 0);
  EXPECT_EQ(steps(owner), std::vector<std::int64_t>{});
  fs::create_directories(partial_copy(copies, 6));
  EXPECT_EQ(steps(owner), std::vector<std::int64_t>{});
  fs::remove(partial_copy(copies, 6));
  add(copies, 6);
  EXPECT_EQ(steps(owner), std::vector<std::int64_t>{6});
  const auto held = held_copies(root(), owner)[0].directory;
  EXPECT_EQ(contents_of(held / tokenizer_name), "tokens");
  EXPECT_EQ(contents_of(held / copy_record_name), "{}");
}

TEST_F(MemoryCopies, OldCopiesAreRetiredAndAFailedOneIsDropped) {
  const auto copies = copies_of(root(), owner, 0);
  for (const int step : {2, 4, 6}) add(copies, step);
  fs::create_directories(partial_copy(copies, 8));
  std::ofstream(partial_copy(copies, 8) / shard_name(0)) << "half";
  EXPECT_EQ(bytes_of_copies(root(), owner), 3 * std::string("shard 2{}tokens").size() + 4);
  retire_other_copies(copies, 6);
  EXPECT_EQ(steps(owner), std::vector<std::int64_t>{6});
  EXPECT_EQ(entries_of(copies).size(), 3U);  // the copy, one spare, and the one that failed
  EXPECT_TRUE(fs::exists(partial_copy(copies, 8)));
  drop_copy(copies, 8);
  EXPECT_FALSE(fs::exists(partial_copy(copies, 8)));
  drop_copy(copies, 6);
  drop_copy(copies, 6);
  EXPECT_EQ(steps(owner), std::vector<std::int64_t>{});
}

TEST_F(MemoryCopies, ACopyIsWrittenOverTheSpare) {
  const auto copies = copies_of(root(), owner, 0);
  const auto inode = [&](const fs::path& directory) {
    return PosixFile::open(directory / shard_name(0)).status().st_ino;
  };
  add(copies, 2);
  const auto first = inode(copies / checkpoint_name(2));
  add(copies, 4);  // the copy of step 2 may still be needed
  EXPECT_EQ(steps(owner), (std::vector<std::int64_t>{2, 4}));
  EXPECT_NE(inode(copies / checkpoint_name(4)), first);
  retire_other_copies(copies, 4);
  begin_copy(copies, 6);
  EXPECT_EQ(steps(owner), std::vector<std::int64_t>{4});
  EXPECT_EQ(inode(partial_copy(copies, 6)), first);
  // The spare's other files are gone.
  EXPECT_EQ(entries_of(partial_copy(copies, 6)).size(), 1U);
  add_copy_record(partial_copy(copies, 6), "{}", "tokens");
  publish_copy(copies, 6);
  EXPECT_EQ(contents_of(copies / checkpoint_name(4) / shard_name(0)), "shard 4");
  drop_copy(copies, 6);
  begin_copy(copies, 8);  // there is no spare
  EXPECT_TRUE(fs::is_empty(partial_copy(copies, 8)));
  EXPECT_EQ(steps(owner), std::vector<std::int64_t>{4});
}

// Those of another start are of another state, even if their step is the same.
TEST_F(MemoryCopies, EachStartHasItsOwn) {
  add(copies_of(root(), earlier, 0), 9);
  add(copies_of(root(), owner, 0), 6);
  EXPECT_EQ(steps(owner), std::vector<std::int64_t>{6});
  remove_copies(root(), owner);
  EXPECT_EQ(steps(owner), std::vector<std::int64_t>{});
  EXPECT_EQ(steps(earlier), std::vector<std::int64_t>{9});
  remove_copies(root(), earlier);
  EXPECT_TRUE(fs::is_empty(root() / "local"));
}

TEST_F(MemoryCopies, NodesThatShareADirectoryDoNotRemoveEachOthers) {
  add(copies_of(root(), owner, 0), 6);
  add(copies_of(root(), owner, 4), 6);
  add(copies_of(root(), owner, 4), 8);
  EXPECT_EQ(steps(owner), (std::vector<std::int64_t>{6, 6, 8}));
  retire_other_copies(copies_of(root(), owner, 4), 8);
  EXPECT_EQ(steps(owner), (std::vector<std::int64_t>{6, 8}));
}

TEST_F(MemoryCopies, ThoseOfAllJobsAreFound) {
  setenv("SLURM_JOB_ID", "17", 1);
  add(copies_of(root(), owner, 0), 6);
  unsetenv("SLURM_JOB_ID");
  EXPECT_EQ(steps(owner), std::vector<std::int64_t>{6});
  remove_copies(root(), owner);
  EXPECT_TRUE(fs::is_empty(root() / "17"));
}

TEST_F(MemoryCopies, TheRunDirectoryNamesTheNewestStart) {
  ScratchFolder run;
  EXPECT_EQ(read_copy_owner(run.path()), std::nullopt);
  write_copy_owner(run.path(), earlier);
  write_copy_owner(run.path(), owner);
  EXPECT_EQ(read_copy_owner(run.path()), owner);
  for (const char* bad : {"", "{}", R"({"run": "f00d", "start": ".."})",
                          R"({"run": "a/b", "start": "0123"})", R"({"run": 1, "start": "0123"})"}) {
    run.write(copy_owner_name, bad);
    EXPECT_TRUE(contains(message_of([&] { read_copy_owner(run.path()); }), "is damaged")) << bad;
  }
  remove_copy_owner(run.path());
  EXPECT_EQ(read_copy_owner(run.path()), std::nullopt);
}

// A record without slices is verified like any other, by every byte.
TEST_F(MemoryCopies, AShardIsVerifiedByItsBytes) {
  const auto shard =
      write_shard(folder.path(), 3, sample_meta(6), sample_slices(0, 2), SampleSource(6));
  const auto path = folder.path() / shard.name;
  auto bytes = contents_of(path);
  const auto record = record_of_bytes(shard.name, as_bytes(std::span(bytes)));
  EXPECT_EQ(record.name, shard.name);
  EXPECT_EQ(record.size, static_cast<std::int64_t>(fs::file_size(path)));
  EXPECT_TRUE(record.slices.empty());
  EXPECT_EQ(record.hash, hash128(bytes));
  EXPECT_TRUE(verify_file(folder.path(), record, Check::hashes).empty());

  bytes[bytes.size() / 2] ^= 4;
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_FALSE(verify_file(folder.path(), record, Check::hashes).empty());
}

}  // namespace
}  // namespace trireme
