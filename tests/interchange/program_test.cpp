// The commands from the outside: grids, full disks, damage.
#include "tests/app/training.hpp"
#include "tests/interchange/model_files.hpp"

namespace trireme {

using namespace test;

class Interchange : public Training {
 protected:
  void expect_nothing_left(const std::string& name) {
    EXPECT_FALSE(std::filesystem::exists(folder / name));
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      EXPECT_EQ(entry.path().filename().string().find("." + name + ".partial"), std::string::npos);
  }
};

TEST_F(Interchange, ACheckpointOfAGridIsExportedImportedAndTrainedOn) {
  const auto trained = here(
      "$MPIEXEC -n 4 $TRIREME train deck.toml parallel.pipe=2 zero.stage=3 train.microbatch=1 "
      "train.steps=2 evaluate.every_steps=0 --run-dir run");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto exported = here("$TRIREME export run hf && $TRIREME import hf back");
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_NE(exported.out.find("hf: GPT2LMHeadModel, 28 tensors"), std::string::npos)
      << exported.out;
  // The same weights: the same loss on the held-out tokens, bit for bit.
  const auto before = here("$TRIREME evaluate run"),
             after = here("$TRIREME evaluate back --data text.tokens"),
             same = here("$TRIREME evaluate run --data text.tokens");
  EXPECT_EQ(before.code, 0) << before.err;
  ASSERT_EQ(after.code, 0) << after.err;
  const auto loss = [](const std::string& line) { return line.substr(line.find("loss")); };
  EXPECT_EQ(loss(after.out), loss(same.out));

  const auto tuned = here(
      "$MPIEXEC -n 2 $TRIREME train deck.toml model.preset=from:back model.context=4 "
      "model.init_from=back zero.stage=3 train.steps=1 evaluate.every_steps=0 --run-dir tuned && "
      "$TRIREME export tuned tuned-hf");
  EXPECT_EQ(tuned.code, 0) << tuned.err;
  // Samples are shorter than its table, and it keeps that.
  EXPECT_NE(contents_of(folder / "tuned-hf/config.json").find("\"n_positions\": 8"),
            std::string::npos);
}

TEST_F(Interchange, NothingIsLeftOfAWriteThatFails) {
  save_model(folder.path() / "run/checkpoints", small_llama());
  for (const char* command : {"export run out", "export run out --format hdf5"}) {
    // 512 bytes a block: less than one file of weights.
    const auto r = here(std::string("ulimit -f 20; $TRIREME ") + command);
    EXPECT_EQ(r.code, 1) << command;
    EXPECT_NE(r.err.find("File too large"), std::string::npos) << r.err;
    expect_nothing_left("out");
  }
  ASSERT_EQ(here("$TRIREME export run hf").code, 0);
  EXPECT_EQ(here("ulimit -f 20; $TRIREME import hf out").code, 1);
  expect_nothing_left("out");
}

TEST_F(Interchange, DamageIsNamedAndNothingIsLeft) {
  const auto checkpoint = save_model(folder.path() / "run/checkpoints", small_llama());
  flip_bit(checkpoint / "rank-00000.h5", 40000);
  for (const char* command : {"export run out", "export run out --format hdf5"}) {
    const auto r = here(std::string("$TRIREME ") + command);
    EXPECT_EQ(r.code, 1) << command;
    EXPECT_NE(r.err.find("does not match its hash"), std::string::npos) << r.err;
    expect_nothing_left("out");
  }
}

TEST_F(Interchange, ArgumentsAreChecked) {
  save_model(folder.path() / "run/checkpoints", small_llama());
  folder.write("there", "mine");
  EXPECT_NE(here("$TRIREME export run there").err.find("exists"), std::string::npos);
  EXPECT_EQ(contents_of(folder / "there"), "mine");
  folder.write(".out.partial", "mine, too");
  EXPECT_EQ(here("$TRIREME export run out").code, 0);
  EXPECT_EQ(contents_of(folder / ".out.partial"), "mine, too");
  std::filesystem::remove(folder / ".out.partial");
  std::filesystem::remove_all(folder / "out");
  EXPECT_EQ(here("$TRIREME export run hf").code, 0);
  const auto positions = small_llama().max_context;
  const auto import = [&](std::int64_t context, const char* to) {
    return here("$TRIREME import hf " + std::string(to) + " --context " + std::to_string(context));
  };
  EXPECT_NE(import(2 * positions, "long").err.find("is more than the"), std::string::npos);
  const auto shorter = import(positions / 2, "made/too/short");
  EXPECT_EQ(shorter.err.find("is more than the"), std::string::npos);
  EXPECT_NE(shorter.out.find("the model supports 17 positions"), std::string::npos) << shorter.out;
  EXPECT_EQ(here("$TRIREME export made/too/short a/b").code, 0);
  EXPECT_NE(contents_of(folder / "a/b/config.json").find("\"max_position_embeddings\": 17"),
            std::string::npos);
  EXPECT_NE(here("$TRIREME export nowhere out").err.find("nowhere"), std::string::npos);
  EXPECT_NE(here("$TRIREME export run out --format gguf").code, 0);
  EXPECT_NE(here("$TRIREME export run out --format hdf5 --dtype bf16").err.find("no bf16"),
            std::string::npos);
  EXPECT_NE(here("$TRIREME export run out --format hdf5 --shard-size 5M").code, 0);
  EXPECT_NE(here("$TRIREME export run out --shard-size many").code, 0);
  expect_nothing_left("out");
}

}  // namespace trireme
