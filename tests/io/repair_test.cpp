// Whatever is lost beside the shards is made again with the same content; a shard that is damaged
// anywhere is never taken for a good one.
#include "lib/io/repair.hpp"

#include <gtest/gtest.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include <fstream>
#include <functional>
#include <iterator>

#include "lib/base/posix_file.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "tests/io/sample_checkpoint.hpp"

namespace trireme {

using namespace test;
namespace fs = std::filesystem;

static std::int64_t size_of(const fs::path& file) {
  return static_cast<std::int64_t>(fs::file_size(file));
}

using Names = std::vector<std::string>;

struct Loss {
  const char* what;
  std::function<void(const fs::path&)> harm;
  Names made;
};

class Repair : public testing::TestWithParam<Loss> {};

INSTANTIATE_TEST_SUITE_P(
    Losses, Repair,
    testing::Values(Loss{"nothing", [](auto&) {}, {}},
                    Loss{"manifest_missing",
                         [](auto& c) { fs::remove(c / "manifest.json"); },
                         {"master.h5", "manifest.json"}},
                    Loss{"manifest_empty",
                         [](auto& c) { fs::resize_file(c / "manifest.json", 0); },
                         {"master.h5", "manifest.json"}},
                    Loss{"manifest_damaged",
                         [](auto& c) { flip_bit(c / "manifest.json", 3000); },
                         {"master.h5", "manifest.json"}},
                    Loss{"manifest_is_a_directory",
                         [](auto& c) {
                           fs::remove(c / "manifest.json");
                           fs::create_directory(c / "manifest.json");
                         },
                         {"master.h5", "manifest.json"}},
                    Loss{"master_missing",
                         [](auto& c) { fs::remove(c / "master.h5"); },
                         {"master.h5", "manifest.json"}},
                    Loss{"master_damaged",
                         [](auto& c) { flip_bit(c / "master.h5", 500); },
                         {"master.h5", "manifest.json"}},
                    Loss{"tokenizer_missing",
                         [](auto& c) { fs::remove(c / "tokenizer.bin"); },
                         {"tokenizer.bin", "manifest.json"}},
                    Loss{"tokenizer_damaged",
                         [](auto& c) { flip_bit(c / "tokenizer.bin", 2); },
                         {"tokenizer.bin", "manifest.json"}},
                    Loss{"all_but_the_shards",
                         [](auto& c) {
                           for (const auto* name : {"manifest.json", "master.h5", "tokenizer.bin"})
                             fs::remove(c / name);
                         },
                         {"master.h5", "tokenizer.bin", "manifest.json"}}),
    [](const auto& info) { return info.param.what; });

TEST_P(Repair, MakesTheSameCheckpointAgain) {
  Folder folder;
  save_sample(folder.path(), 10, 3);
  const auto checkpoint = save_sample(folder.path(), 20, 3);
  const auto meta = CheckpointReader(checkpoint).meta();
  GetParam().harm(checkpoint);

  EXPECT_EQ(repair_checkpoint(checkpoint), GetParam().made);

  EXPECT_EQ(damage_of(checkpoint, Check::hashes), std::nullopt);
  CheckpointReader reader(checkpoint);
  EXPECT_EQ(reader.meta(), meta);
  expect_sample(reader, 20);
  EXPECT_EQ(std::distance(fs::directory_iterator(checkpoint), {}), 6);
  EXPECT_TRUE(repair_checkpoint(checkpoint).empty());
}

// What is left of a directory, to see that nothing was touched.
static std::string content_of(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    files[entry.path().string()] =
        entry.is_regular_file() ? to_string(hash128(read_text(entry.path()))) : "";
  std::string all;
  for (const auto& [name, hash] : files) all += name + hash + "\n";
  return all;
}

struct Refusal {
  const char* what;
  std::function<void(const fs::path& checkpoint, const fs::path& older)> harm;
  std::string says;
};

class Refused : public testing::TestWithParam<Refusal> {};

INSTANTIATE_TEST_SUITE_P(
    Damage, Refused,
    testing::Values(
        Refusal{"shard_and_manifest_intact",
                [](auto& c, auto&) { flip_bit(c / "rank-00001.h5", 100'000); },
                "does not match its hash"},
        Refusal{"a_shard_missing",
                [](auto& c, auto&) {
                  fs::remove(c / "manifest.json");
                  fs::remove(c / "rank-00001.h5");
                },
                "missing or occur twice"},
        Refusal{"the_last_shard_missing",
                [](auto& c, auto&) {
                  fs::remove(c / "manifest.json");
                  fs::remove(c / "rank-00002.h5");
                },
                "end at element"},
        Refusal{"a_shard_of_another_step",
                [](auto& c, auto& older) {
                  fs::remove(c / "manifest.json");
                  fs::remove(c / "rank-00001.h5");
                  fs::copy(older / "rank-00001.h5", c);
                },
                "another checkpoint"},
        Refusal{"a_shard_under_another_name",
                [](auto& c, auto&) {
                  fs::remove(c / "manifest.json");
                  fs::rename(c / "rank-00001.h5", c / "rank-00003.h5");
                },
                "the shard of rank 1"},
        Refusal{"truncated",
                [](auto& c, auto&) {
                  fs::remove(c / "manifest.json");
                  fs::resize_file(c / "rank-00002.h5", 50'000);
                },
                "rank-00002.h5"},
        Refusal{"no_shards",
                [](auto& c, auto&) {
                  for (const auto* name : {"rank-00000.h5", "rank-00001.h5", "rank-00002.h5"})
                    fs::remove(c / name);
                  fs::remove(c / "manifest.json");
                },
                "contains no shards"},
        Refusal{"a_tokenizer_that_is_nowhere",
                [](auto& c, auto& older) {
                  fs::remove(c / "tokenizer.bin");
                  fs::remove(older / "tokenizer.bin");
                },
                "copy the run's tokenizer.bin"}),
    [](const auto& info) { return info.param.what; });

TEST_P(Refused, AndNothingIsTouched) {
  Folder folder;
  const auto older = save_sample(folder.path(), 10, 3);
  const auto checkpoint = save_sample(folder.path(), 20, 3);
  GetParam().harm(checkpoint, older);
  const auto before = content_of(checkpoint);

  const auto message = message_of([&] { repair_checkpoint(checkpoint); });

  EXPECT_TRUE(contains(message, GetParam().says)) << message;
  EXPECT_EQ(content_of(checkpoint), before);
}

// A pipeline's stages hold whole parameters: those that are left tile theirs.
TEST(RepairOfStages, MissesTheParametersOfALostShard) {
  Folder folder;
  const auto meta = sample_meta(20);
  const auto partial = begin_save(folder.path(), 20);
  const auto all = sample_slices(0, 1);
  std::vector<FileRecord> records;
  for (int r = 0; r < 2; ++r) {
    std::vector<ParamSlice> mine;
    for (const auto& s : all)
      if ((s.name == "embedding.table") == (r == 1)) mine.push_back(s);
    records.push_back(write_shard(partial, r, meta, mine, SampleSource(20)));
  }
  const auto checkpoint = publish(folder.path(), meta, records);
  fs::remove(checkpoint / "manifest.json");
  fs::remove(checkpoint / "rank-00001.h5");

  const auto message = message_of([&] { repair_checkpoint(checkpoint); });

  EXPECT_TRUE(contains(message, "no shard holds embedding.table")) << message;
}

// Wherever a byte of a shard is changed, either a manifest is refused, or the elements, names and
// counts are what they were: a byte between HDF5's records means nothing.
// HDF5 1.10 loses memory when it refuses damaged records of its own.
#ifdef __SANITIZE_ADDRESS__
using LibraryMayLeak = __lsan::ScopedDisabler;
#else
struct LibraryMayLeak {
  LibraryMayLeak() {}  // declared for its scope alone
};
#endif

TEST(RepairOfDamagedShards, NeverGivesOtherNumbers) {
  const LibraryMayLeak while_damaged;
  Folder folder;
  const auto checkpoint = save_sample(folder.path(), 20);
  const auto meta = CheckpointReader(checkpoint).meta();
  const auto shard = checkpoint / "rank-00000.h5";
  fs::remove(checkpoint / "manifest.json");
  Folder original;
  fs::copy(checkpoint, original.path() / "it", fs::copy_options::recursive);
  const auto& slices = sample_slices(0, 1);
  ASSERT_GT(slices.size(), 3U);
  int refused = 0, accepted = 0;
  const auto size = size_of(shard);
  std::uint64_t key = 7;
  for (int i = 0; i < 60; ++i) {
    // Half of them where HDF5's own records and the text lie: at both ends of the file.
    key = mix64(key + 1);
    const auto random = static_cast<std::int64_t>(key >> 2);
    const auto at = i % 4 == 0   ? random % 3000
                    : i % 4 == 1 ? size - 1 - random % 4000
                                 : random % size;
    SCOPED_TRACE(at);
    flip_bit(shard, at);
    try {
      repair_checkpoint(checkpoint);
      ++accepted;
      CheckpointReader reader(checkpoint);
      EXPECT_EQ(reader.meta(), meta);
      expect_sample(reader, 20);
    } catch (const Error&) {
      ++refused;
    }
    fs::remove_all(checkpoint);
    fs::copy(original.path() / "it", checkpoint, fs::copy_options::recursive);
  }
  EXPECT_GT(refused, 30) << accepted;
}

}  // namespace trireme
