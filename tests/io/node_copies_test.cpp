#include "lib/io/node_copies.hpp"

#include <gtest/gtest.h>

#include "lib/io/checkpoint_save.hpp"
#include "lib/io/shard_reader.hpp"
#include "tests/io/copies_on_a_node.hpp"

namespace trireme {
namespace {

using namespace test;
namespace fs = std::filesystem;

// A copy of a run of two ranks, in the memory of one node or, for a requeued job, in two places.
class NodeCopiesTest : public CopiesOnANode {
 protected:
  NodeCopiesTest() {
    manifest.meta = sample_meta(6);
    manifest.meta.grid.data = 2;
  }

  // Writes the copy of step 6, and returns its directory.
  fs::path add() {
    return CopiesOnANode::add(
        copies_of(root(), owner, 0), 6, [&](const fs::path& directory) { write_shards(directory); },
        [&] { return to_text(manifest); }, manifest.meta.tokenizer);
  }
  static void flip(const fs::path& file) {
    auto bytes = contents_of(file);
    bytes[bytes.size() / 2] ^= 1;
    std::ofstream(file, std::ios::binary) << bytes;
  }

  Manifest manifest;

 private:
  void write_shards(const fs::path& directory) {
    for (const int r : {0, 1}) {
      write_shard(directory, r, manifest.meta, sample_slices(r, 2), SampleSource(6));
      const auto bytes = contents_of(directory / shard_name(r));
      manifest.files.push_back(record_of_bytes(shard_name(r), as_bytes(std::span(bytes))));
      manifest.files.back().rank = r;
    }
    manifest.files.push_back(
        record_of_bytes(tokenizer_name, as_bytes(std::span(manifest.meta.tokenizer))));
  }
};

TEST_F(NodeCopiesTest, WithoutCopiesThereAreNoClaims) {
  EXPECT_TRUE(NodeCopies().claims().empty());
  const NodeCopies none(root(), owner);
  EXPECT_TRUE(none.claims().empty());
  EXPECT_EQ(none.problems(), "");
  EXPECT_EQ(none.record({6, {}}), "");
}

TEST_F(NodeCopiesTest, AClaimHasTheRecordThatAllNodesHave) {
  add();
  const NodeCopies own(root(), owner);
  ASSERT_EQ(own.claims().size(), 1U);
  EXPECT_EQ(own.claims()[0].step, 6);
  EXPECT_EQ(own.record(own.claims()[0]), to_text(manifest));
  EXPECT_EQ(own.claims()[0].record, hash128(to_text(manifest)));
  EXPECT_EQ(own.present(manifest), "111");
}

// The files are copied as they are, and make a checkpoint.
TEST_F(NodeCopiesTest, IntactFilesMakeACheckpoint) {
  add();
  const NodeCopies own(root(), owner);
  const auto checkpoints = folder.path() / "checkpoints";
  fs::create_directories(checkpoints);
  const auto partial = begin_save(checkpoints, 6);
  std::vector<FileRecord> shards;
  for (const int r : {0, 1}) {
    EXPECT_EQ(own.copy(manifest.files[static_cast<std::size_t>(r)], 6, partial / shard_name(r)),
              "");
    shards.push_back(record_of_shard(partial / shard_name(r)));
    EXPECT_EQ(shards.back(), read_shard(partial / shard_name(r)).second);
  }
  EXPECT_EQ(own.bytes_of(manifest.files[2], 6), manifest.meta.tokenizer);
  CheckpointReader reader(publish(checkpoints, manifest.meta, shards));
  EXPECT_EQ(reader.meta(), manifest.meta);
  expect_sample(reader, 6);
  EXPECT_TRUE(reader.verify().empty());
}

TEST_F(NodeCopiesTest, ADamagedFileIsNotCopied) {
  const auto copy = add();
  flip(copy / shard_name(1));
  flip(copy / tokenizer_name);
  const NodeCopies own(root(), owner);
  EXPECT_EQ(own.present(manifest), "111");
  const auto to = folder.path() / "shard";
  EXPECT_TRUE(contains(own.copy(manifest.files[1], 6, to), "does not match its hash"));
  EXPECT_FALSE(fs::exists(to));
  EXPECT_EQ(own.bytes_of(manifest.files[2], 6), std::nullopt);
  EXPECT_EQ(own.copy(manifest.files[0], 6, to), "");
}

TEST_F(NodeCopiesTest, AFileThatIsMissingOrShortIsNotPresent) {
  const auto copy = add();
  fs::remove(copy / shard_name(0));
  fs::resize_file(copy / shard_name(1), 100);
  const NodeCopies own(root(), owner);
  EXPECT_EQ(own.present(manifest), "001");
  const auto to = folder.path() / "shard";
  EXPECT_NE(own.copy(manifest.files[0], 6, to), "");
  EXPECT_NE(own.copy(manifest.files[1], 6, to), "");
  EXPECT_NE(own.copy(manifest.files[1], 7, to), "");  // another step
  EXPECT_FALSE(fs::exists(to));
}

TEST_F(NodeCopiesTest, ADamagedRecordIsNoClaimButItsShardsAreOfUse) {
  const auto copy = add();
  flip(copy / copy_record_name);
  const NodeCopies own(root(), owner);
  EXPECT_TRUE(own.claims().empty());
  EXPECT_TRUE(contains(own.problems(), "copy.json is damaged")) << own.problems();
  EXPECT_EQ(own.present(manifest), "111");
  EXPECT_EQ(own.copy(manifest.files[0], 6, folder.path() / "shard"), "");
}

// A job that was requeued may have left a part of the copy under its former number.
TEST_F(NodeCopiesTest, AnIntactFileOfAnotherJobReplacesADamagedOne) {
  const auto first = add();
  setenv("SLURM_JOB_ID", "17", 1);
  const auto second = copies_of(root(), owner, 0) / checkpoint_name(6);
  fs::create_directories(second.parent_path());
  fs::copy(first, second);
  flip(first / shard_name(0));
  flip(second / shard_name(1));
  const NodeCopies own(root(), owner);
  EXPECT_EQ(own.claims().size(), 1U);
  for (const int r : {0, 1})
    EXPECT_EQ(own.copy(manifest.files[static_cast<std::size_t>(r)], 6, folder / shard_name(r)), "");
}

TEST_F(NodeCopiesTest, AFullDiskIsAnError) {
  add();
  const NodeCopies own(root(), owner);
  EXPECT_TRUE(contains(
      message_of([&] { own.copy(manifest.files[0], 6, folder.path() / "none/shard"); }), "none"));
}

}  // namespace
}  // namespace trireme
