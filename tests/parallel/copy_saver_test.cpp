// Memory copies: the state as it was, on two nodes each; a copy that fails is dropped as a whole.
#include "lib/train/copy_saver.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <thread>

#include "lib/base/posix_file.hpp"
#include "lib/comm/byte_message.hpp"
#include "lib/io/checkpoint_save.hpp"
#include "lib/io/shard_reader.hpp"
#include "tests/parallel/saved_training.hpp"

namespace trireme {
namespace {

bool has_text(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

using test::arrays_in;
namespace fs = std::filesystem;

// Ranks on two nodes, or on one if there is one rank.
struct CopiedTraining : test::SavedTraining {
  explicit CopiedTraining(const test::ParityCase& c = test::saved_case())
      : SavedTraining(c, "run/checkpoints") {
    std::string nodes;
    for (int r = 0; r < test::world().size(); ++r) nodes += (r == 0 ? "" : ",") + node_of(r);
    setenv("TRIREME_TEST_NODES", nodes.c_str(), 1);
    setenv("TRIREME_MEMORY_DIR", (root / "memory").c_str(), 1);
    copies = std::make_unique<CopySaver>(trainer->store(), trainer->axes(), root / "run", "f00d");
  }
  ~CopiedTraining() {
    copies.reset();
    unsetenv("TRIREME_TEST_NODES");
    unsetenv("TRIREME_MEMORY_DIR");
  }
  static std::string node_of(int rank) { return 2 * rank < test::world().size() ? "a" : "b"; }
  static std::string my_node() { return node_of(test::world().rank()); }
  std::vector<HeldCopy> held(const std::string& node) const {
    return held_copies(memory_root(node), *read_copy_owner(root / "run"));
  }
  std::vector<std::int64_t> steps_on(const std::string& node) const {
    std::vector<std::int64_t> steps;
    for (const auto& copy : held(node)) steps.push_back(copy.step);
    return steps;
  }
  void copy(std::int64_t step) {
    EXPECT_EQ(copies->begin(meta(step), saver.snapshot()), "");
    EXPECT_EQ(copies->finish(), "");
  }

  std::unique_ptr<CopySaver> copies;
};

// A checkpoint of the shards that one node holds, or both.
fs::path published(const fs::path& checkpoints, const CheckpointMeta& meta,
                   const std::vector<fs::path>& directories) {
  const auto partial = begin_save(checkpoints, meta.step);
  std::vector<FileRecord> shards;
  for (const auto& directory : directories)
    for (const auto& file : entries_of(directory)) {
      if (file.extension() != ".h5" || fs::exists(partial / file.filename())) continue;
      fs::copy_file(file, partial / file.filename());
      shards.push_back(read_shard(partial / file.filename()).second);
    }
  return publish(checkpoints, meta, std::move(shards));
}

// What a copy says of its state, with the tokenizer.
CheckpointMeta meta_in(const fs::path& copy) {
  auto meta = parse_manifest(read_text(copy / copy_record_name), "the record").meta;
  meta.tokenizer = read_text(copy / tokenizer_name);
  return meta;
}

bool is_intact(const HeldCopy& copy) {
  const auto record = parse_manifest(read_text(copy.directory / copy_record_name), "the record");
  return std::ranges::all_of(record.files, [&](const FileRecord& file) {
    return verify_file(copy.directory, file, Check::hashes).empty();
  });
}

using StepList = std::vector<std::int64_t>;

}  // namespace

TEST(CopySaver, EachNodeHoldsTheStateAsItWasWhileTrainingGoesOn) {
  if (!test::next_case("copies")) return;
  CopiedTraining run;
  run.steps(2);
  const auto at_once = run.saver.save(CopiedTraining::meta(2));
  EXPECT_EQ(run.copies->begin(CopiedTraining::meta(3), run.saver.snapshot()),
            "");  // of the same state
  run.steps(2);
  EXPECT_EQ(run.copies->finish(), "");
  EXPECT_EQ(run.copies->newest(), 3);
  test::meet();
  if (test::world().rank() == 0) {
    // Two nodes hold everything twice, so either is enough.
    for (const std::string node : {"a", "b"}) {
      if (test::world().size() == 1 && node == "b") continue;
      SCOPED_TRACE(node);
      ASSERT_EQ(run.steps_on(node), StepList{3});
      const auto directory = run.held(node)[0].directory;
      EXPECT_EQ(meta_in(directory).step, 3);
      EXPECT_TRUE(is_intact(run.held(node)[0]));
      EXPECT_TRUE(arrays_in(published(run.root / "run/checkpoints", meta_in(directory),
                                      {directory})) == arrays_in(at_once));
    }
  }
  test::meet();
}

TEST(CopySaver, ANewerCopyReplacesAnOlderOneAndTheEndRemovesAll) {
  if (!test::next_case("replace")) return;
  CopiedTraining run;
  const auto mine = CopiedTraining::my_node();
  for (int step = 1; step < 4; ++step) {
    run.steps(1);
    run.copy(step);
    test::meet();
    EXPECT_EQ(run.steps_on(mine), StepList{step});
    test::meet();
  }
  const auto owner = read_copy_owner(run.root / "run");
  ASSERT_TRUE(owner.has_value());
  run.copies->remove_all();
  EXPECT_TRUE(held_copies(memory_root(mine), *owner).empty());
  EXPECT_EQ(read_copy_owner(run.root / "run"), std::nullopt);
  test::meet();
}

// The files of a node's newest complete copy, by name: the file's number, and whether it has the
// bytes of the copy's record.
static std::map<std::string, std::pair<ino_t, bool>> newest_files(const CopiedTraining& run,
                                                                  const std::string& node) {
  const auto directory = run.held(node).back().directory;
  const auto record = parse_manifest(read_text(directory / copy_record_name), "the record");
  std::map<std::string, std::pair<ino_t, bool>> files;
  for (const auto& file : record.files)
    files[file.name] = {PosixFile::open(directory / file.name).status().st_ino,
                        verify_file(directory, file, Check::hashes).empty()};
  return files;
}

TEST(CopySaver, ACopyIsWrittenOverThatBeforeTheNewestWhichStaysWhole) {
  if (!test::next_case("spare")) return;
  CopiedTraining run;
  const auto mine = CopiedTraining::my_node();
  std::vector<ino_t> numbers;
  for (int step = 1; step < 6; ++step) {
    run.steps(1);
    EXPECT_EQ(run.copies->begin(CopiedTraining::meta(step), run.saver.snapshot()), "");
    run.steps(1);
    while (run.copies->working()) std::this_thread::yield();
    test::meet();  // everything is written
    if (step > 1) {
      ASSERT_EQ(run.steps_on(mine), StepList{step - 1});
      for (const auto& [name, file] : newest_files(run, mine)) EXPECT_TRUE(file.second) << name;
    }
    test::meet();
    EXPECT_EQ(run.copies->finish(), "");
    test::meet();
    EXPECT_EQ(run.steps_on(mine), StepList{step});
    const auto files = newest_files(run, mine);
    for (const auto& [name, file] : files) EXPECT_TRUE(file.second) << name;
    numbers.push_back(files.begin()->second.first);
    test::meet();
  }
  EXPECT_NE(numbers[0], numbers[1]);
  EXPECT_EQ(numbers[2], numbers[0]);
  EXPECT_EQ(numbers[3], numbers[1]);
  EXPECT_EQ(numbers[4], numbers[0]);
  test::meet();
}

TEST(CopySaver, AFailureOfOneRankDropsTheCopyAndKeepsTheOlderOne) {
  if (!test::next_case("failure")) return;
  CopiedTraining run;
  run.steps(1);
  run.copy(1);
  std::string failure;
  {
    const test::FullDiskOfLastRank full;
    EXPECT_EQ(run.copies->begin(CopiedTraining::meta(2), run.saver.snapshot()), "");
    failure = run.copies->finish();
  }
  EXPECT_TRUE(has_text(failure, "cannot write")) << failure;
  EXPECT_EQ(run.copies->newest(), 1);
  EXPECT_FALSE(run.copies->busy());
  test::meet();
  EXPECT_EQ(run.steps_on(CopiedTraining::my_node()), StepList{1});
  test::meet();
  run.copy(3);
  test::meet();
  EXPECT_EQ(run.steps_on(CopiedTraining::my_node()).back(), 3);
  test::meet();
}

static std::string bytes_of_shards(const fs::path& checkpoint) {
  std::string all;
  for (const auto& file : entries_of(checkpoint))
    if (file.filename().string().starts_with("rank-")) all += contents_of(file);
  return all;
}

// Freezes all weights of the first block, which is on the first stage.
void freeze_first_block(Store& store) {
  const auto& spec = store.spec();
  for (std::size_t i = 0; i < spec.params.size(); ++i)
    if (spec.params[i].unit == spec.blocks[0].unit) store.set_trainable(ParamId::at(i), false);
  store.apply_trainable();
}

// Bytes of frozen weights that this rank need not send again. Small slices are not worth it.
std::int64_t frozen_bytes(const Store& store) {
  const auto all = rank_slices(store);
  double frozen = 0;
  for (std::size_t i = 0; i < all.slices.size(); ++i) {
    const double bytes = bytes_of(RankSlices{{all.slices[i]}, {all.params[i]}});
    if (store.trainable()[all.params[i].index()] == 0 && bytes >= 4096) frozen += bytes;
  }
  return static_cast<std::int64_t>(frozen);
}

TEST(CopySaver, FrozenWeightsAreSentOnlyOnce) {
  if (test::world().size() == 1 || !test::next_case("frozen")) return;
  auto wide = test::saved_case();
  wide.width = 48;
  wide.layers = 2;
  CopiedTraining run(wide);
  const auto mine = CopiedTraining::my_node();
  freeze_first_block(run.trainer->store());
  const auto frozen = frozen_bytes(run.trainer->store());
  std::vector<std::int64_t> sent;
  for (int step = 1; step < 6; ++step) {
    run.steps(1);
    run.copy(step);
    sent.push_back(run.copies->sent());
    test::meet();
    ASSERT_EQ(run.steps_on(mine), StepList{step});
    EXPECT_TRUE(is_intact(run.held(mine)[0]));
    test::meet();
  }
  EXPECT_EQ(sent[1], sent[0]);  // new files
  for (const std::size_t i : {2, 3, 4}) EXPECT_LE(sent[i], sent[0] - frozen);
  double all = static_cast<double>(frozen);
  test::world().all_reduce({&all, 1});
  EXPECT_GT(all, 0);
  const auto at_once = run.saver.save(CopiedTraining::meta(5));
  test::meet();
  if (test::world().rank() == 0) {
    const auto directory = run.held(mine)[0].directory;
    fs::rename(at_once, run.root / "at_once");
    EXPECT_TRUE(arrays_in(published(run.root / "run/checkpoints", meta_in(directory),
                                    {directory})) == arrays_in(run.root / "at_once"));
  }
  test::meet();
}

// The bytes of the spare that stay could have changed in memory. On the node of their own ranks,
// they are compared with the weights. On the other node, the hash of the whole file differs: this
// copy is dropped, and the next one is sent whole. A shard is also sent whole if its older file is
// gone.
TEST(CopySaver, DamageOfFrozenWeightsInTheSpareIsFound) {
  if (test::world().size() == 1 || !test::next_case("damage")) return;
  CopiedTraining run;
  const auto mine = CopiedTraining::my_node();
  freeze_first_block(run.trainer->store());
  const auto damage = [&](const std::string& node, int rank) {
    if (test::world().rank() != 0) return;
    const auto spare = run.held(node)[0].directory.parent_path() / ".spare" / shard_name(rank);
    auto file = PosixFile::open_to_write(spare);
    std::vector<std::byte> bytes(static_cast<std::size_t>(file.size()));
    file.read_at(bytes, 0);
    for (auto& byte : bytes) byte ^= std::byte{1};
    file.write_at(bytes, 0);
  };
  const auto copy = [&](std::int64_t step) {
    run.steps(1);
    EXPECT_EQ(run.copies->begin(CopiedTraining::meta(step), run.saver.snapshot()), "");
    auto failure = run.copies->finish();
    test::meet();
    return failure;
  };
  for (const std::int64_t step : {1, 2}) EXPECT_EQ(copy(step), "");
  damage("a", 0);  // its own
  test::meet();
  EXPECT_EQ(copy(3), "");
  EXPECT_TRUE(is_intact(run.held(mine)[0]));
  test::meet();
  damage("b", 0);  // a second copy
  test::meet();
  EXPECT_TRUE(has_text(copy(4), "did not arrive as it was sent"));
  EXPECT_EQ(run.steps_on(mine), StepList{3});
  test::meet();
  for (const std::int64_t step : {5, 6}) EXPECT_EQ(copy(step), "");
  if (test::world().rank() == 0)
    fs::remove(run.held("b")[0].directory.parent_path() / ".spare" / shard_name(0));
  test::meet();
  EXPECT_EQ(copy(7), "");
  EXPECT_EQ(run.steps_on(mine), StepList{7});
  EXPECT_TRUE(is_intact(run.held(mine)[0]));
  test::meet();
}

// The two have the same bytes, although training and further copies go on meanwhile.
TEST(CopySaver, ACheckpointIsWrittenFromACopy) {
  if (!test::next_case("checkpoint")) return;
  CopiedTraining run;
  const auto meta = CopiedTraining::meta(2);
  run.steps(2);
  run.copy(1);
  const auto at_once = run.saver.save(meta);
  const auto expected = bytes_of_shards(at_once);
  test::meet();
  if (test::world().rank() == 0) fs::remove_all(at_once);
  test::meet();

  EXPECT_EQ(run.copies->begin(meta, run.saver.snapshot()), "");
  run.steps(1);
  EXPECT_EQ(run.copies->finish(), "");
  EXPECT_EQ(run.copies->overwrites(), 1);
  run.saver.begin(run.copies->copied());
  EXPECT_EQ(run.copies->begin(CopiedTraining::meta(3), run.saver.snapshot()), "");
  run.steps(1);
  EXPECT_EQ(run.copies->finish(), "");
  EXPECT_EQ(run.copies->overwrites(), 2);
  const auto behind = run.saver.finish();
  test::meet();
  EXPECT_TRUE(bytes_of_shards(behind) == expected);
  EXPECT_TRUE(CheckpointReader(behind).verify().empty());
  test::meet();
}

// If the copy fails, its snapshot still has the state.
TEST(CopySaver, ACheckpointIsWrittenFromTheSnapshotOfACopyThatFailed) {
  if (!test::next_case("snapshot")) return;
  CopiedTraining run;
  run.steps(2);
  const auto expected = arrays_in(run.saver.save(CopiedTraining::meta(2)));
  const auto mine = memory_root(CopiedTraining::my_node());
  const auto last = test::world().size() - 1;
  EXPECT_EQ(run.copies->begin(CopiedTraining::meta(3), run.saver.snapshot()), "");
  run.steps(1);
  while (run.copies->working()) std::this_thread::yield();
  test::meet();
  if (test::world().rank() == last) fs::remove_all(mine);  // nowhere to put the record
  test::meet();
  EXPECT_NE(run.copies->finish(), "");
  run.saver.begin(run.copies->copied());
  run.steps(1);
  EXPECT_TRUE(arrays_in(run.saver.finish()) == expected);
  test::meet();
}

// Containers on one machine share its memory, but their ranks are on different nodes.
TEST(CopySaver, NodesMayShareADirectory) {
  if (test::world().size() == 1 || !test::next_case("shared")) return;
  CopiedTraining run;
  const auto b = run.root / "memory/b";
  run.copies->remove_all();
  run.copies.reset();
  test::meet();
  if (test::world().rank() == 0) {
    fs::remove_all(b);
    fs::create_directory_symlink(run.root / "memory/a", b);
  }
  test::meet();
  run.copies = std::make_unique<CopySaver>(run.trainer->store(), run.trainer->axes(),
                                           run.root / "run", "f00d");
  run.steps(1);
  run.copy(1);
  test::meet();
  for (const std::string node : {"a", "b"}) EXPECT_EQ(run.steps_on(node), (StepList{1, 1}));
  test::meet();
  run.copies->remove_all();
  test::meet();
  EXPECT_TRUE(fs::is_empty(run.root / "memory/a" / memory_root("").filename() / "local"));
  test::meet();
}

TEST(ByteMessage, LongOnesArriveWhole) {
  if (test::world().size() == 1 || !test::next_case("bytes")) return;
  const auto channel = test::world().duplicate();
  const int n = channel.size(), me = channel.rank();
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{8} << 20, (std::size_t{40} << 20) + 7}) {
    std::vector<std::byte> out(size), in(size);
    for (std::size_t i = 0; i < size; i += 997)
      out[i] = static_cast<std::byte>(i + static_cast<std::size_t>(me));
    // Of several parts, one of which is empty.
    const auto parts = [&](std::span<std::byte> bytes) {
      const auto third = size / 3;
      return ByteMessage::Parts{bytes.first(third), {}, bytes.subspan(third)};
    };
    ByteMessage receive(channel, ByteMessage::Way::receive, (me + n - 1) % n, 1, parts(in));
    ByteMessage send(channel, ByteMessage::Way::send, (me + 1) % n, 1, parts(out));
    bool received = false, sent = false;
    while (!received || !sent) {
      received = received || receive.complete();
      sent = sent || send.complete();
      std::this_thread::yield();
    }
    const auto from = static_cast<std::size_t>((me + n - 1) % n);
    bool same = true;
    for (std::size_t i = 0; i < size; i += 997)
      same = same && in[i] == static_cast<std::byte>(i + from);
    EXPECT_TRUE(same) << size;
  }
  test::meet();
}

}  // namespace trireme
