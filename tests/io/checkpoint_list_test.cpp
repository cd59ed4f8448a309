#include "lib/io/checkpoint_list.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include <fstream>

#include "tests/io/sample_checkpoint.hpp"

namespace trireme {

using namespace test;
namespace fs = std::filesystem;

// A checkpoint of one small parameter: these tests are about names.
static void save_small(const fs::path& checkpoints, std::int64_t step,
                       std::int64_t decay_ends = 0) {
  auto meta = sample_meta(step);
  meta.extra.ends_decay = decay_ends;
  const std::vector<float> w = {1, 2, 3};
  const std::vector<ParamSlice> slices = {{"w", "weights", {3}, 0, 3, DType::f32}};
  save_checkpoint(checkpoints, meta, slices,
                  [&](const ParamSlice&, std::int64_t first, std::span<std::byte> to) {
                    std::memcpy(to.data(), w.data() + first, to.size());
                  });
}

static std::vector<std::int64_t> steps_of(const fs::path& checkpoints) {
  std::vector<std::int64_t> steps;
  for (const auto& c : list_checkpoints(checkpoints)) steps.push_back(c.step);
  return steps;
}

using Steps = std::vector<std::int64_t>;

TEST(ListCheckpoints, OrdersBySteps) {
  Folder folder;
  for (std::int64_t step : {123'456'789, 5, 40}) save_small(folder.path(), step);
  fs::create_directory(folder.path() / "step-5");
  fs::create_directory(folder.path() / "step-0000000x");
  fs::create_directory(folder.path() / ".step-00000007.partial");
  EXPECT_EQ(steps_of(folder.path()), (Steps{5, 40, 123'456'789}));
  EXPECT_TRUE(list_checkpoints(folder.path() / "nowhere").empty());
}

TEST(Prune, KeepsTheNewestAndTheRoundOnes) {
  Folder folder;
  for (std::int64_t step : {10, 20, 25, 30, 35, 40}) save_small(folder.path(), step);
  prune(folder.path(), {.keep_last = 0, .keep_every = 20});
  EXPECT_EQ(steps_of(folder.path()).size(), 6u);
  prune(folder.path(), {.keep_last = 2, .keep_every = 20});
  EXPECT_EQ(steps_of(folder.path()), (Steps{20, 35, 40}));
  prune(folder.path(), {.keep_last = 1});
  EXPECT_EQ(steps_of(folder.path()), (Steps{40}));
}

TEST(Prune, DamagedOnesDoNotCount) {
  Folder folder;
  for (std::int64_t step : {10, 20, 30, 40}) save_small(folder.path(), step);
  fs::remove(folder.path() / "step-00000030" / manifest_name);
  prune(folder.path(), {.keep_last = 2});
  EXPECT_EQ(steps_of(folder.path()), (Steps{20, 30, 40}));
}

// Step 50 has no checkpoint. The checkpoint of step 20 is damaged, but could be repaired.
TEST(Prune, KeepsTheBest) {
  Folder folder;
  for (std::int64_t step : {10, 20, 30, 40, 60, 70}) save_small(folder.path(), step);
  fs::remove(folder.path() / "step-00000020" / manifest_name);
  const Steps best{50, 20, 60, 10, 30, 40};
  prune(folder.path(), {.keep_last = 1, .keep_best = 2}, best);
  EXPECT_EQ(steps_of(folder.path()), (Steps{10, 20, 60, 70}));
  prune(folder.path(), {.keep_last = 1, .keep_best = 1}, best);
  EXPECT_EQ(steps_of(folder.path()), (Steps{20, 60, 70}));
  prune(folder.path(), {.keep_last = 1}, best);
  EXPECT_EQ(steps_of(folder.path()), (Steps{70}));
}

TEST(Prune, KeepsTheEndsOfDecays) {
  Folder folder;
  for (std::int64_t step : {10, 20, 30, 40}) save_small(folder.path(), step, step == 20 ? 1 : 0);
  prune(folder.path(), {.keep_last = 1});
  EXPECT_EQ(steps_of(folder.path()), (Steps{20, 40}));
  save_small(folder.path(), 50, 1);
  save_small(folder.path(), 60);
  prune(folder.path(), {.keep_last = 1});
  EXPECT_EQ(steps_of(folder.path()), (Steps{20, 50, 60}));
  fs::remove(folder.path() / "step-00000020" / manifest_name);
  prune(folder.path(), {.keep_last = 1});
  EXPECT_EQ(steps_of(folder.path()), (Steps{50, 60})) << "nobody knows what it was";
}

// A crash between the two renames of a replacement.
TEST(ListCheckpoints, KnowsOneThatSteppedAside) {
  Folder folder;
  for (std::int64_t step : {10, 20}) save_small(folder.path(), step);
  fs::rename(folder.path() / "step-00000020", folder.path() / ".step-00000020.replaced");
  fs::create_directory(folder.path() / ".step-00000030.partial");
  EXPECT_EQ(steps_of(folder.path()), (Steps{10, 20}));
  EXPECT_EQ(newest_intact(folder.path(), Check::hashes).found->step, 20);

  put_back_replaced(folder.path());

  EXPECT_TRUE(fs::exists(folder.path() / "step-00000020"));
  EXPECT_TRUE(fs::exists(folder.path() / ".step-00000030.partial"));
  // Beside its successor it is debris.
  fs::create_directory(folder.path() / ".step-00000020.replaced");
  EXPECT_EQ(steps_of(folder.path()), (Steps{10, 20}));
}

TEST(Publish, ReplacesACheckpointOfTheSameStep) {
  Folder folder;
  save_small(folder.path(), 10);
  const auto manifest = folder.path() / "step-00000010" / manifest_name;
  std::ofstream(manifest) << "damaged";
  save_small(folder.path(), 10);
  EXPECT_FALSE(damage_of(folder.path() / "step-00000010", Check::hashes));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(CleanCheckpoints, RemovesDebrisAndNothingElse) {
  Folder folder;
  save_small(folder.path(), 10);
  save_small(folder.path(), 20);
  // A crash between the two renames of a replacement: step 20 has stepped aside.
  fs::rename(folder.path() / "step-00000020", folder.path() / ".step-00000020.replaced");
  fs::create_directories(folder.path() / ".step-00000030.partial" / "x");
  fs::create_directories(folder.path() / ".step-00000005.removed");
  fs::create_directories(folder.path() / ".step-00000010.replaced");
  std::ofstream(folder.path() / ".notes.partial") << "mine";
  EXPECT_EQ(clean_checkpoints(folder.path()).size(), 3u);
  EXPECT_EQ(steps_of(folder.path()), (Steps{10, 20}));
  EXPECT_FALSE(damage_of(folder.path() / "step-00000020", Check::hashes));
  EXPECT_TRUE(fs::exists(folder.path() / ".notes.partial"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 3);
}

}  // namespace trireme
