// Every kind of damage is recognised and named, and the newest intact checkpoint is used.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "lib/base/posix_file.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/repair.hpp"
#include "tests/io/sample_checkpoint.hpp"
#include "tests/support/sealed.hpp"

namespace trireme {

using namespace test;
namespace fs = std::filesystem;

static void overwrite(const fs::path& file, std::int64_t at, const std::string& bytes) {
  std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
  f.seekp(at);
  f.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(f.good());
}

struct DamageCase {
  std::string what;
  Check found_by;  // the cheaper check that must already see it
  std::string named;
  std::function<void(const fs::path& checkpoint, const fs::path& older, const fs::path& other)>
      harm;
};

static std::vector<DamageCase> damage_cases() {
  const std::string shard = "rank-00001.h5", manifest(manifest_name);
  const auto middle = [](const fs::path& f) {
    return static_cast<std::int64_t>(fs::file_size(f) / 2);
  };
  return {
      {"bit flipped in an element", Check::hashes, shard,
       [=](auto& c, auto&, auto&) { flip_bit(c / shard, middle(c / shard)); }},
      {"bit flipped in HDF5's own header", Check::hashes, shard,
       [=](auto& c, auto&, auto&) { flip_bit(c / shard, 9); }},
      {"bit flipped in the last byte", Check::hashes, shard,
       [=](auto& c, auto&, auto&) {
         flip_bit(c / shard, static_cast<std::int64_t>(fs::file_size(c / shard)) - 1);
       }},
      {"range zeroed", Check::hashes, shard,
       [=](auto& c, auto&, auto&) {
         overwrite(c / shard, middle(c / shard), std::string(50'000, '\0'));
       }},
      {"two chunks swapped", Check::hashes, shard,
       [=](auto& c, auto&, auto&) {
         const CheckpointReader reader(c);
         const auto& chunks = reader.files()[1].slices[0].chunks;
         const auto n = static_cast<std::size_t>(reader.files()[1].slices[0].chunk_elements) * 4;
         ASSERT_EQ(chunks.size(), 1u);  // a rank's share of the table is one chunk: swap contents
         const auto& other = reader.files()[1].slices[1].chunks[0];
         std::ifstream in(c / shard, std::ios::binary);
         std::string a(n, 0), b(n, 0);
         in.seekg(chunks[0].at).read(a.data(), static_cast<std::streamsize>(n));
         in.seekg(other.at).read(b.data(), static_cast<std::streamsize>(n));
         overwrite(c / shard, chunks[0].at, b);
         overwrite(c / shard, other.at, a);
       }},
      {"truncated", Check::sizes, shard,
       [=](auto& c, auto&, auto&) { fs::resize_file(c / shard, fs::file_size(c / shard) - 1); }},
      {"empty", Check::sizes, shard, [=](auto& c, auto&, auto&) { fs::resize_file(c / shard, 0); }},
      {"missing", Check::sizes, shard, [=](auto& c, auto&, auto&) { fs::remove(c / shard); }},
      {"a directory", Check::sizes, shard,
       [=](auto& c, auto&, auto&) {
         fs::remove(c / shard);
         fs::create_directory(c / shard);
       }},
      {"from another step", Check::sizes, shard,
       [=](auto& c, auto& older, auto&) {
         fs::copy_file(older / shard, c / shard, fs::copy_options::overwrite_existing);
       }},
      {"from another run", Check::hashes, shard,
       [=](auto& c, auto&, auto& other) {
         fs::copy_file(other / shard, c / shard, fs::copy_options::overwrite_existing);
       }},
      {"master damaged", Check::hashes, "master.h5",
       [](auto& c, auto&, auto&) { flip_bit(c / "master.h5", 500); }},
      {"tokenizer damaged", Check::sizes, "tokenizer.bin",
       [](auto& c, auto&, auto&) { flip_bit(c / "tokenizer.bin", 3); }},
      {"manifest missing", Check::sizes, manifest,
       [=](auto& c, auto&, auto&) { fs::remove(c / manifest); }},
      {"manifest empty", Check::sizes, manifest,
       [=](auto& c, auto&, auto&) { fs::resize_file(c / manifest, 0); }},
      {"manifest half written", Check::sizes, manifest,
       [=](auto& c, auto&, auto&) {
         fs::resize_file(c / manifest, fs::file_size(c / manifest) / 2);
       }},
      {"manifest altered", Check::sizes, manifest,
       [=](auto& c, auto&, auto&) {
         std::ifstream in(c / manifest);
         const std::string text((std::istreambuf_iterator<char>(in)), {});
         const auto at = text.find("\"samples\": ");
         ASSERT_NE(at, std::string::npos);
         overwrite(c / manifest, static_cast<std::int64_t>(at) + 11, "9");
       }},
      {"manifest from another step", Check::sizes, "contains step 10",
       [=](auto& c, auto& older, auto&) {
         fs::remove_all(c);
         fs::copy(older, c, fs::copy_options::recursive);
       }},
      {"only the name of a directory", Check::sizes, manifest,
       [=](auto& c, auto&, auto&) {
         fs::remove_all(c);
         fs::create_directory(c);
       }},
  };
}

TEST(Damage, IsNamedAndTheNextOlderCheckpointIsUsed) {
  Folder original, elsewhere;
  const auto older = save_sample(original.path(), 10, 3);
  save_sample(original.path(), 20, 3);
  const auto other = save_sample(elsewhere.path(), 21, 3);
  for (const auto& c : damage_cases()) {
    SCOPED_TRACE(c.what);
    Folder folder;
    const auto checkpoints = folder.path() / "checkpoints";
    fs::copy(original.path(), checkpoints, fs::copy_options::recursive);
    const auto newest = checkpoints / "step-00000020";
    ASSERT_EQ(newest_intact(checkpoints, Check::hashes).found->step, 20);
    c.harm(newest, older, other);

    const auto result = newest_intact(checkpoints, Check::hashes);
    const auto quick = newest_intact(checkpoints, Check::sizes);

    ASSERT_TRUE(result.found);
    EXPECT_EQ(result.found->step, 10);
    ASSERT_EQ(result.skipped.size(), 1u);
    EXPECT_TRUE(contains(result.skipped[0].damage, c.named)) << result.skipped[0].damage;
    EXPECT_TRUE(contains(result.skipped[0].damage, "step-00000020")) << result.skipped[0].damage;
    EXPECT_EQ(quick.found->step, c.found_by == Check::sizes ? 10 : 20);
  }
}

// Loading does not rely on a check made before: it meets the damage itself.
TEST(Damage, IsMetWhileReading) {
  Folder folder;
  const auto checkpoint = save_sample(folder.path(), 20, 3);
  CheckpointReader reader(checkpoint);
  const auto& record = reader.files()[1].slices[0];
  ASSERT_EQ(record.slice.name, "embedding.table");
  flip_bit(checkpoint / "rank-00001.h5", record.chunks[0].at + 1000);
  std::vector<std::byte> some(40);
  // The flipped bit is not among the elements asked for, but in their chunk.
  const auto message =
      message_of([&] { reader.read("embedding.table", "weights", record.slice.begin, 10, some); });
  EXPECT_TRUE(contains(message, "rank-00001.h5")) << message;
  EXPECT_TRUE(contains(message, "does not match its hash")) << message;
}

// A manifest whose hash is right, and that says of a shard what the shard does not say of itself.
TEST(Damage, AManifestThatContradictsItsShardsIsRefused) {
  using nlohmann::json;
  const auto each_slice = [](json& content, const auto& f) {
    for (auto& file : content["files"])
      for (auto& slice : file["slices"]) f(slice);
  };
  struct Edit {
    std::string what, says;
    std::function<void(json& content)> make;
  };
  const std::vector<Edit> edits = {
      {"another name", "weights/block.0.bias",
       [&](json& c) {
         each_slice(c, [](json& s) {
           if (s["name"] == "block.0.bias") s["name"] = "block.0.bia";
         });
       }},
      {"another shape", "block.0.qkv [3, 5, 7]",
       [&](json& c) {
         each_slice(c, [](json& s) {
           if (s["name"] == "block.0.qkv") s["shape"] = {5, 3, 7};
         });
       }},
      {"another count of samples", "it belongs to another checkpoint",
       [](json& c) { c["checkpoint"]["samples"] = 1; }},
      {"another count of updates", "it belongs to another checkpoint",
       [](json& c) { c["checkpoint"]["updates"]["block.0.qkv"] = 1; }},
      {"another seed", "it belongs to another checkpoint",
       [](json& c) { c["checkpoint"]["seed"] = 1; }},
      {"another step",
       "it belongs to the checkpoint of step 20, not to the checkpoint of step 21 in manifest.json",
       [](json& c) { c["checkpoint"]["step"] = 21; }},
      {"another rank", "lists it as the shard of rank 7",
       [](json& c) { c["files"][0]["rank"] = 7; }},
      {"another machine", "rank-00000.h5: it belongs to another checkpoint",
       [](json& c) { c["checkpoint"]["extra"]["machine"] = "other"; }},
      {"two arrays exchanged", "moment1/embedding.table [1031, 2053]",
       [&](json& c) {
         each_slice(c, [](json& s) {
           if (s["group"] != "weights") s["group"] = s["group"] == "moment1" ? "slow_2" : "moment1";
         });
       }},
  };
  Folder folder;
  const auto checkpoint = save_sample(folder.path(), 20, 2);
  const auto text = read_text(checkpoint / manifest_name);
  for (const auto& edit : edits) {
    SCOPED_TRACE(edit.what);
    auto content = json::parse(text)["content"];
    edit.make(content);
    replace_atomically(checkpoint / manifest_name, sealed(content));
    CheckpointReader reader(checkpoint);
    for (const auto check : {Check::metadata, Check::hashes}) {
      const auto problems = reader.verify(check);
      ASSERT_FALSE(problems.empty());
      EXPECT_TRUE(contains(problems[0], edit.says)) << problems[0];
    }
    const auto& p = sample_model()[3];
    std::vector<std::byte> out(static_cast<std::size_t>(p.shape.count()) * 8);
    const auto message =
        message_of([&] { reader.read(p.name, weights_array, 0, p.shape.count(), out); });
    EXPECT_TRUE(contains(message, "is damaged: rank-00000.h5: ")) << message;
  }
  // The last manifest is still there.
  repair_checkpoint(checkpoint);
  CheckpointReader repaired(checkpoint);
  EXPECT_TRUE(repaired.verify().empty());
  expect_sample(repaired, 20);
}

TEST(Damage, AllDamagedMeansNoneFound) {
  Folder folder;
  fs::resize_file(save_sample(folder.path(), 1) / "master.h5", 1);
  fs::remove(save_sample(folder.path(), 2) / manifest_name);
  const auto result = newest_intact(folder.path(), Check::sizes);
  EXPECT_FALSE(result.found);
  EXPECT_EQ(result.skipped.size(), 2u);
}

}  // namespace trireme
