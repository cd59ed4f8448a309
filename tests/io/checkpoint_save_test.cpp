#include "lib/io/checkpoint_save.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <limits>

#include "lib/base/mapped_file.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "tests/io/sample_checkpoint.hpp"

namespace trireme {

using namespace test;
namespace fs = std::filesystem;

TEST(Checkpoint, OneRankRoundTrip) {
  Folder folder;
  const auto path = save_sample(folder.path(), 420);

  EXPECT_EQ(path.filename(), "step-00000420");
  CheckpointReader reader(path);
  EXPECT_EQ(reader.meta(), sample_meta(420));
  expect_sample(reader, 420);
  EXPECT_TRUE(reader.verify().empty());
}

TEST(Checkpoint, ThreeRanksRoundTripAndArbitrarySlices) {
  Folder folder;
  CheckpointReader reader(save_sample(folder.path(), 7, 3));

  EXPECT_EQ(reader.meta().grid.data, 3);
  expect_sample(reader, 7);
  EXPECT_TRUE(reader.verify().empty());
  const auto& table = sample_model()[0];
  const auto whole = sample_bytes(table, "moment1", 7);
  for (std::uint64_t i = 0; i < 40; ++i) {
    const auto n = static_cast<std::uint64_t>(table.shape.count());
    const auto begin = mix64(2 * i) % n, count = mix64(2 * i + 1) % (n - begin);
    std::vector<std::byte> part(4 * count);
    reader.read(table.name, "moment1", static_cast<std::int64_t>(begin),
                static_cast<std::int64_t>(count), part);
    ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<long>(4 * begin)));
  }
}

// What another layout reads: its share, and at most the two chunks that its ends cut.
TEST(Checkpoint, ReadsLittleMoreThanWhatIsAskedFor) {
  Folder folder;
  CheckpointReader reader(save_sample(folder.path(), 7, 3));
  const auto& table = sample_model()[0];
  const auto half = table.shape.count() / 2;
  std::vector<std::byte> part(static_cast<std::size_t>(4 * half));
  reader.read(table.name, "weights", 0, half, part);
  EXPECT_LE(reader.bytes_read(), 4 * half + 2 * max_chunk_bytes);
}

TEST(Checkpoint, RequestsThatDoNotFitAreErrors) {
  Folder folder;
  CheckpointReader reader(save_sample(folder.path(), 7));
  std::vector<std::byte> out(4 * 77);
  const auto read = [&](const char* name, const char* c, std::int64_t begin, std::int64_t n) {
    return message_of([&] { reader.read(name, c, begin, n, out); });
  };
  EXPECT_EQ(read("block.0.bias", "weights", 0, 77), "");
  EXPECT_TRUE(
      contains(read("block.9.bias", "weights", 0, 77), "does not contain weights/block.9.bias"));
  EXPECT_TRUE(
      contains(read("block.0.bias", "moment1", 0, 77), "does not contain moment1/block.0.bias"));
  EXPECT_TRUE(contains(read("block.0.bias", "weights", 1, 77), "[1, 78)"));
  EXPECT_TRUE(
      contains(read("block.0.bias", "weights", 0, 76), "has the wrong size for 76 elements"));
  EXPECT_TRUE(contains(read("block.0.bias", "weights", -1, 77), "[-1, 76)"));
}

TEST(Checkpoint, AnotherModelIsNamed) {
  Folder folder;
  CheckpointReader reader(save_sample(folder.path(), 7));
  std::vector<std::pair<std::string, Shape>> model;
  for (const auto& p : sample_model()) model.push_back({p.name, p.shape});
  EXPECT_EQ(message_of([&] { reader.require_model(model); }), "");
  model[1].second = {78};
  model[2].first = "block.1.qkv";
  const auto message = message_of([&] { reader.require_model(model); });
  EXPECT_TRUE(contains(message, "block.0.bias is [77] instead of [78]")) << message;
  EXPECT_TRUE(contains(message, "block.1.qkv is missing")) << message;
  EXPECT_TRUE(contains(message, "block.0.qkv is unexpected")) << message;
}

TEST(Checkpoint, AChunkIsReadOnce) {
  Folder folder;
  CheckpointReader reader(save_sample(folder.path(), 5, 3));
  const auto& table = sample_model()[0];
  std::int64_t next = 100, handed = 0;

  reader.read(table.name, "moment1", 100, table.shape.count() - 200,
              [&](std::int64_t first, std::span<const std::byte> elements) {
                EXPECT_EQ(first, next);
                next += static_cast<std::int64_t>(elements.size()) / 4;
                ++handed;
              });

  EXPECT_EQ(next, table.shape.count() - 100);
  EXPECT_EQ(handed, 3);
  EXPECT_EQ(reader.bytes_read(), 4 * table.shape.count());
}

// What ranks hold must tile every parameter; otherwise nothing is published.
TEST(Checkpoint, AMissingRankIsNotPublished) {
  Folder folder;
  const auto partial = begin_save(folder.path(), 5);
  std::vector<FileRecord> records;
  for (int rank : {0, 2}) {
    records.push_back(
        write_shard(partial, rank, sample_meta(5), sample_slices(rank, 3), SampleSource(5)));
  }
  const auto message = message_of([&] { publish(folder.path(), sample_meta(5), records); });
  EXPECT_TRUE(contains(message, "missing or occur twice")) << message;
  EXPECT_TRUE(list_checkpoints(folder.path()).empty());
}

// Memory copies are written over older ones. Nothing of these remains, not even where HDF5 leaves
// gaps.
TEST(Checkpoint, AShardOverOtherBytesIsLikeANewOne) {
  Folder folder;
  const auto shard =
      write_shard(folder.path(), 1, sample_meta(5), sample_slices(1, 3), SampleSource(5));
  const auto bytes = contents_of(folder / shard.name);
  for (const std::size_t size : {bytes.size() / 2, bytes.size(), 2 * bytes.size()}) {
    auto file = open_or_create(folder.write("older", std::string(size, 'x')));
    const auto inode = file.status().st_ino;
    std::vector<ByteRange> unchanged;
    EXPECT_EQ(
        rewrite_shard(file, 1, sample_meta(5), sample_slices(1, 3), SampleSource(5), {}, unchanged),
        shard);
    EXPECT_TRUE(unchanged.empty());
    EXPECT_TRUE(contents_of(folder / "older") == bytes) << size;
    EXPECT_EQ(PosixFile::open(folder / "older").status().st_ino, inode);
  }
}

// A chunk that the older file contains is not written again, even if another element of the file
// changes. Everything else is.
TEST(Checkpoint, AShardOverAnOlderOneIsWrittenWhereItDiffers) {
  Folder folder;
  const auto slices = sample_slices(1, 3);
  const auto& table = slices[0];
  ASSERT_EQ(table.name, "embedding.table");
  enum class Change : std::uint8_t { none, last_byte, all };  // of the table
  const auto source = [&](std::int64_t step, Change change) {
    return [=, others = SampleSource(step), of_table = SampleSource(change == Change::all ? 6 : 5)](
               const ParamSlice& s, std::int64_t first, std::span<std::byte> to) mutable {
      const bool is_table = s.name == table.name && s.array == weights_array;
      (is_table ? of_table : others)(s, first, to);
      if (is_table && change == Change::last_byte && first + std::ssize(to) / 4 == s.count)
        to.back() ^= std::byte{1};
    };
  };
  const auto older = write_shard(folder.path(), 1, sample_meta(5), slices, source(5, Change::none));
  for (const auto change : {Change::none, Change::last_byte, Change::all}) {
    fs::create_directory(folder / "new");
    const auto expected = write_shard(folder / "new", 1, sample_meta(6), slices, source(6, change));
    fs::copy_file(folder / older.name, folder / "over");
    auto file = open_or_create(folder / "over");
    const MappedFile mapped(file);
    std::vector<ByteRange> unchanged;
    EXPECT_EQ(rewrite_shard(file, 1, sample_meta(6), slices, source(6, change), mapped.bytes(),
                            unchanged),
              expected);
    EXPECT_TRUE(contents_of(folder / "over") == contents_of(folder / ("new/" + older.name)));
    std::int64_t bytes = 0;
    for (const auto& r : unchanged) bytes += r.end - r.begin;
    const auto of_slice = 4 * table.count + 4;  // with the checksum of its one chunk
    EXPECT_EQ(bytes, change == Change::none ? of_slice : 0);
    fs::remove_all(folder / "new");
    fs::remove(folder / "over");
  }
}

// Whoever lost the run directory leaves what is there as it is.
TEST(Checkpoint, IsNotPublishedInAnothersDirectory) {
  Folder folder;
  const auto there = save_sample(folder.path(), 5);
  const auto manifest = read_text(there / manifest_name);
  const auto partial = begin_save(folder.path(), 5);
  auto meta = sample_meta(5);
  ++meta.tokens;
  std::vector<FileRecord> records = {
      write_shard(partial, 0, meta, sample_slices(0, 1), SampleSource(5))};
  EXPECT_EQ(message_of([&] { publish(folder.path(), meta, records, [] { fail("another's"); }); }),
            "another's");
  EXPECT_EQ(read_text(there / manifest_name), manifest);
}

TEST(Checkpoint, StateThatCouldNotBeLoadedIsNotPublished) {
  Folder folder;
  auto meta = sample_meta(5);
  meta.tokens = -1;
  const auto message = message_of(
      [&] { save_checkpoint(folder.path(), meta, sample_slices(0, 1), SampleSource(5)); });
  EXPECT_TRUE(contains(message, "'tokens' = -1 is out of range")) << message;
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Checkpoint, SavingAStepAgainReplacesIt) {
  Folder folder;
  save_sample(folder.path(), 5, 3);
  save_sample(folder.path(), 5, 1);
  CheckpointReader reader(folder.path() / "step-00000005");
  EXPECT_EQ(reader.meta().grid.data, 1);
  expect_sample(reader, 5);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(Checkpoint, TwoByteElementsAreRefused) {
  Folder folder;
  const std::vector<ParamSlice> slices = {{"w", "weights", {4}, 0, 4, DType::bf16}};
  const auto message =
      message_of([&] { save_checkpoint(folder.path(), sample_meta(1), slices, SampleSource(1)); });
  EXPECT_TRUE(contains(message, "can contain only f32 and f64")) << message;
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

// A file size limit stands for a full disk: the write fails with errno in the middle of a file.
// From a limit of 0 (nothing can be written) up to one that only the manifest meets.
TEST(FailedSave, ReportsCleansUpAndKeepsTheOlderOne) {
  Folder folder;
  save_sample(folder.path(), 1);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  for (rlim_t limit : {rlim_t{0}, rlim_t{100}, rlim_t{5000}, rlim_t{1} << 20, rlim_t{9'000'001},
                       rlim_t{25'000'000}}) {
    const rlimit small{limit, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto message = message_of([&] { save_sample(folder.path(), 2); });
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_TRUE(contains(message, "File too large")) << limit << ": " << message;
    EXPECT_TRUE(contains(message, "cannot write")) << limit << ": " << message;
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
    EXPECT_FALSE(damage_of(folder.path() / "step-00000001", Check::hashes));
  }
  EXPECT_EQ(message_of([&] { save_sample(folder.path(), 2); }), "");
}

TEST(FailedSave, DirectoryThatCannotBeWritten) {
  Folder folder;
  save_sample(folder.path(), 1);
  // Root writes everywhere: step down to a user who may not.
  const bool root = geteuid() == 0;
  fs::permissions(folder.path(), fs::perms(0555));
  ASSERT_EQ(root ? seteuid(65534) : 0, 0);
  const auto message = message_of([&] { save_sample(folder.path(), 2); });
  ASSERT_EQ(root ? seteuid(0) : 0, 0);
  fs::permissions(folder.path(), fs::perms(0755));
  EXPECT_TRUE(contains(message, "Permission denied")) << message;
  EXPECT_FALSE(damage_of(folder.path() / "step-00000001", Check::hashes));
}

// Of either type, in the first chunk or behind it: nothing is left, and what was there stays.
TEST(FailedSave, NumbersThatAreNotFiniteAreNamed) {
  Folder folder;
  save_sample(folder.path(), 1);
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const auto infinity = -std::numeric_limits<double>::infinity();
  const struct {
    std::string name;
    std::int64_t element;
    std::span<const std::byte> bytes;
  } rows[] = {{"embedding.table", 0, std::as_bytes(std::span(&nan, 1))},
              {"embedding.table", 1031 * 2053 - 1, std::as_bytes(std::span(&nan, 1))},
              {"block.0.scale", 71, std::as_bytes(std::span(&infinity, 1))}};
  for (const auto& [name, element, bytes] : rows) {
    SampleSource good(2);
    const auto message = message_of([&] {
      save_checkpoint(folder.path(), sample_meta(2), sample_slices(0, 1),
                      [&](const ParamSlice& s, std::int64_t first, std::span<std::byte> to) {
                        good(s, first, to);
                        const auto at = (element - first) * static_cast<std::int64_t>(bytes.size());
                        if (s.name == name && s.array == "moment1" && at >= 0 &&
                            at < static_cast<std::int64_t>(to.size()))
                          std::ranges::copy(bytes, to.begin() + at);
                      });
    });
    EXPECT_EQ(message, fmt::format("element {} of moment1/{} is infinite or NaN", element, name));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
  }
  EXPECT_FALSE(damage_of(folder.path() / "step-00000001", Check::hashes));
}

TEST(FailedSave, ASourceThatThrowsLeavesNothing) {
  Folder folder;
  int calls = 0;
  SampleSource good(2);
  const SliceSource source = [&](const ParamSlice& s, std::int64_t first, std::span<std::byte> to) {
    require(++calls < 4, "the device is gone");
    good(s, first, to);
  };
  EXPECT_EQ(message_of([&] {
              save_checkpoint(folder.path(), sample_meta(2), sample_slices(0, 1), source);
            }),
            "the device is gone");
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

// Killed while the shard is written.
TEST(KilledSave, LeavesDebrisThatIsNotListedAndIsRemoved) {
  Folder folder;
  save_sample(folder.path(), 1);
  for (int calls_left = 0; calls_left < 12; ++calls_left) {
    const auto child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      SampleSource good(2);
      int left = calls_left;
      const SliceSource source = [&](const ParamSlice& s, std::int64_t first,
                                     std::span<std::byte> to) {
        if (left-- == 0) ::kill(::getpid(), SIGKILL);
        good(s, first, to);
      };
      try {
        save_checkpoint(folder.path(), sample_meta(2), sample_slices(0, 1), source);
      } catch (...) {
      }
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const auto all = list_checkpoints(folder.path());
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].step, 1);
    EXPECT_EQ(clean_checkpoints(folder.path()).size(), 1u);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
  }
}

// Killed at any moment, the master file, the manifest and the renames included: the new checkpoint
// is whole or not listed, and the old ones are as they were.
TEST(KilledSave, AtRandomMomentsIsWholeOrAbsent) {
  Folder folder;
  save_sample(folder.path(), 1);
  const auto start = std::chrono::steady_clock::now();
  save_sample(folder.path(), 2);
  const std::chrono::duration<double, std::micro> whole = std::chrono::steady_clock::now() - start;
  for (std::uint64_t point = 0; point < 20; ++point) {
    const auto child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      save_sample(folder.path(), 2, 3);  // in place of the old step 2
      ::_exit(0);
    }
    const double moment = unit_float(static_cast<std::uint32_t>(mix64(point)));
    ::usleep(static_cast<useconds_t>(1.5 * moment * whole.count()));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    clean_checkpoints(folder.path());
    const auto all = list_checkpoints(folder.path());
    ASSERT_EQ(all.size(), 2u);
    for (const auto& c : all) EXPECT_FALSE(damage_of(c.directory, Check::hashes)) << point;
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2);
  }
}

}  // namespace trireme
