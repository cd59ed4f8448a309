// Runs and checkpoints that differ in known ways, compared by the program.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "kernels/host/host.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/io/checkpoint_save.hpp"
#include "tests/app/training.hpp"
#include "tests/support/recorded_run.hpp"
#include "tests/support/tampering.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

class Compare : public Training {
 protected:
  static constexpr const char* settings =
      " train.steps=4 checkpoint.every_steps=2 evaluate.every_steps=2 run.digest_every=1 "
      "run.log_every=0 model.width=32 model.context=16 ";

  void train(const std::string& run, const std::string& overrides = "", int ranks = 1) {
    const auto r = here((ranks > 1 ? "$MPIEXEC -n " + std::to_string(ranks) : std::string()) +
                        " $TRIREME train deck.toml --run-dir " + run + settings + overrides);
    ASSERT_EQ(r.code, 0) << r.err;
  }
  // The same deck recorded by this process, on whatever backend.
  void record(const std::string& run, Backend& backend, const std::string& like = "a") {
    const auto deck = folder.path() / like / "effective.toml";
    test::record_run(folder.path() / run, parse_deck(contents_of(deck), deck.string()), backend);
  }
  test::Finished compare(const std::string& arguments) {
    return here("$TRIREME compare " + arguments);
  }
  Json compare_json(const std::string& arguments, int code) {
    const auto r = compare(arguments + " --json");
    EXPECT_EQ(r.code, code) << r.out << r.err;
    return Json::parse(r.out);
  }
  static std::string step(const std::string& run, int n) {
    return run + "/checkpoints/step-0000000" + std::to_string(n);
  }
  // A copy of a checkpoint with one element of one parameter's weights changed.
  void change(const std::string& from, const std::string& to, const std::string& name,
              std::int64_t at, const std::function<void(float&)>& edit) {
    CheckpointReader reader(folder.path() / from);
    std::vector<ParamSlice> slices;
    for (const auto& p : reader.params())
      for (const auto& array : p.arrays)
        slices.push_back({p.name, array, p.shape, 0, p.shape.count(), p.dtype});
    for (const auto& p : reader.params())
      slices.push_back({p.name, "weights", p.shape, 0, p.shape.count(), p.dtype});
    std::filesystem::create_directories(folder.path() / to);
    save_checkpoint(folder.path() / to, reader.meta(), slices,
                    [&](const ParamSlice& s, std::int64_t first, std::span<std::byte> bytes) {
                      const auto n = static_cast<std::int64_t>(bytes.size() / sizeof(float));
                      reader.read(s.name, s.array, first, n, bytes);
                      if (s.name != name || s.array != "weights" || at < first || at >= first + n)
                        return;
                      auto* const element = bytes.data() + (at - first) * 4;
                      float x;
                      std::memcpy(&x, element, 4);
                      edit(x);
                      std::memcpy(element, &x, 4);
                    });
  }
};

TEST_F(Compare, RunsOfOneDeckAreEqual) {
  train("a");
  train("b");
  const auto r = compare("a b");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, AllOf(HasSubstr("history: 4 steps in common, all equal up to step 4"),
                           HasSubstr("digests: 4 steps in common, all equal up to step 4"),
                           HasSubstr("evaluations: 2 steps in common"),
                           HasSubstr("checkpoints of step 4: all 84 tensors are equal"),
                           HasSubstr("verdict: equal")));
  EXPECT_EQ(compare("a " + step("b", 2)).code, 0);
}

TEST_F(Compare, AnotherSeedIsAnotherTraining) {
  train("a");
  train("b", "train.seed=2");
  const auto json = compare_json("a b", 1);
  EXPECT_EQ(json.at("settings"), Json({"train.seed: 1 -> 2"}));
  EXPECT_EQ(json.at("history").at("first"), 1);
  EXPECT_EQ(json.at("digests").at("first"), 1);
  EXPECT_EQ(json.at("digests").at("differ").at(0), Json({{"array", "gradients"},
                                                         {"parameter", "embedding.weight"},
                                                         {"unit", "embedding"},
                                                         {"stage", 0}}));
  for (const auto& replay : json.at("replays")) EXPECT_EQ(replay.at("faulty"), false);
  EXPECT_THAT(json.at("rounding").at("not_asked").get<std::string>(), HasSubstr("train.seed"));
  EXPECT_EQ(json.at("verdict"), "differ");
}

TEST_F(Compare, ARunThatWasMadeLongerIsNotLaidToItsMachine) {
  train("a");
  train("a", "train.steps=6 --restart latest");
  std::filesystem::remove_all(folder.path() / step("a", 4));  // whose deck had 4 steps
  train("b", "train.steps=6");
  EXPECT_THAT(compare("a b").out,
              AllOf(ContainsRegex("replay of A, [^\n]* bitwise equal to its record"),
                    Not(HasSubstr("programs or machines"))));
  // Without the decks of the starts, that of the next checkpoint is taken.
  std::filesystem::remove(folder.path() / "a/starts.json");
  const auto r = compare("a b");
  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_THAT(r.out, AllOf(HasSubstr("replay of A: left out: step 4 had a learning rate of"),
                           Not(HasSubstr("caused the difference")),
                           Not(HasSubstr("programs or machines"))));
}

// What is left of a run whose length is in tokens counts from the checkpoint, in its new batches.
TEST_F(Compare, ARunOfTokensIsReplayedWithItsLength) {
  const auto go = [this](const std::string& run, const std::string& overrides) {
    const auto r = here(
        "sed '/^steps/d' deck.toml > tokens.toml; $TRIREME train tokens.toml --run-dir " + run +
        " checkpoint.every_steps=2 checkpoint.keep_last=0 run.digest_every=1 model.width=32 "
        "model.context=16 " +
        overrides);
    ASSERT_EQ(r.code, 0) << r.err;
  };
  go("a", "train.tokens=256 train.batch=4");
  std::filesystem::copy(folder.path() / "a", folder.path() / "b",
                        std::filesystem::copy_options::recursive);
  const std::string longer = "train.tokens=1024 train.batch=8 --restart latest ";
  go("a", longer);
  go("b", longer + "train.microbatch=1");
  const auto r = compare("a b");
  EXPECT_THAT(r.out,
              AllOf(HasSubstr("replay of A, steps"), Not(HasSubstr("had a learning rate of"))));
}

TEST_F(Compare, AFlippedBitOfACheckpointIsFoundInItsPlace) {
  train("a", "parallel.pipe=2", 2);
  change(step("a", 4), "changed", "blocks.1.ffn_in.weight", 1234, [](float& x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, 4);
    bits ^= 8;
    std::memcpy(&x, &bits, 4);
  });
  const auto json = compare_json(step("a", 4) + " changed/step-00000004 --no-replay", 1);
  const auto& state = json.at("compared").at(0);
  EXPECT_EQ(state.at("tensors"), 84);
  ASSERT_EQ(state.at("differ").size(), 1U);
  const auto& found = state.at("differ").at(0);
  EXPECT_EQ(found.at("array"), "weights");
  EXPECT_EQ(found.at("parameter"), "blocks.1.ffn_in.weight");
  EXPECT_EQ(found.at("unit"), "blocks.1");
  EXPECT_EQ(found.at("stage"), 1);
  EXPECT_EQ(found.at("elements"), 4096);
  EXPECT_EQ(found.at("differ"), 1);
  EXPECT_EQ(found.at("largest_ulps"), 8);
  EXPECT_EQ(found.at("largest_index"), 1234);
}

// Checkpoints of two steps can be compared, by name alone.
TEST_F(Compare, OtherStepsAreComparedWhereBothAreNamed) {
  train("a");
  const auto named = compare(step("a", 2) + " " + step("a", 4) + " --no-replay");
  EXPECT_EQ(named.code, 1);
  EXPECT_THAT(named.out, HasSubstr("checkpoints of different steps, 2 and 4"));
  train("b", "checkpoint.every_steps=0 train.steps=3");
  const auto mixed = compare("b " + step("a", 2));
  EXPECT_EQ(mixed.code, 2);
  EXPECT_THAT(mixed.err, HasSubstr("has checkpoints only of steps 3"));
}

TEST_F(Compare, WhatCannotBeComparedIsAnError) {
  train("a");
  train("b", "model.width=16");
  const auto r = compare(step("a", 4) + " " + step("b", 4));
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err, AllOf(HasSubstr("the models differ"), HasSubstr("is [16] instead of [32]")));
  EXPECT_EQ(compare("a nowhere").code, 2);
  EXPECT_THAT(compare("a .").err, HasSubstr("neither a checkpoint"));
}

// Sums over tokens are added in another order on another grid, and cut elsewhere by another
// microbatch.
TEST_F(Compare, AnotherGridAndMicrobatchAreExplainedByRounding) {
  train("a");
  train("b", "parallel.seq=2 parallel.pipe=2 train.microbatch=1", 4);
  const auto json = compare_json("a b", 0);
  EXPECT_EQ(json.at("verdict"), "explained");
  EXPECT_EQ(json.at("history").at("first"), 1);
  const auto& judged = json.at("rounding").at("judged");
  EXPECT_GT(judged.size(), 60U);
  for (const auto& j : judged) {
    EXPECT_TRUE(j.at("explained").get<bool>()) << j;
    EXPECT_LT(j.at("size"), 3) << j;  // a draw of about 1
  }
}

// A product of the forward pass whose terms are added the other way round.
TEST_F(Compare, AnotherOrderOfSumsInOneKernelIsExplainedByRounding) {
  train("a");
  Host host{1};
  test::Tampering backend{host};
  backend.after = [](const kernel::Operation& operation) {
    const auto* const o = std::get_if<kernel::Matmul>(&operation);
    if (!o || o->how == Accumulate::add || o->c_MN.extent[1] != 96 || o->a_MK.extent[1] != 32)
      return;
    const auto at = [](const auto& v, std::int64_t i, std::int64_t j) -> auto& {
      return reinterpret_cast<std::conditional_t<
          std::is_const_v<std::remove_pointer_t<decltype(v.data)>>, const float, float>*>(
          v.data)[i * v.stride[0] + j * v.stride[1]];
    };
    for (std::int64_t m = 0; m < o->c_MN.extent[0]; ++m)
      for (std::int64_t n = 0; n < 96; ++n) {
        float sum = 0;
        for (std::int64_t k = 32; k-- > 0;) sum += at(o->a_MK, m, k) * at(o->b_KN, k, n);
        if (o->epilogue.bias_N) sum += reinterpret_cast<const float*>(o->epilogue.bias_N.data)[n];
        at(o->c_MN, m, n) = sum;
      }
  };
  record("b", backend);
  const auto json = compare_json("a b", 0);
  EXPECT_EQ(json.at("verdict"), "explained") << json.at("rounding").dump(1);
  // It ran on one rank, as the replay does, which computes something else.
  EXPECT_EQ(json.at("replays").at(0).at("faulty"), false);
  EXPECT_EQ(json.at("replays").at(1).at("faulty"), true);
}

// The checkpoint between the two decks is gone.
TEST_F(Compare, StepsOfTwoDecksAreNotReplayedWithOne) {
  const std::string kept = "schedule.shape=constant checkpoint.keep_last=1 ";
  train("a", kept);
  std::filesystem::copy(folder.path() / "a", folder.path() / "b",
                        std::filesystem::copy_options::recursive);
  const auto longer = kept + "train.steps=8 optimizer.clip=1e-3 --restart latest ";
  train("a", longer);
  train("b", longer + "train.microbatch=1");
  const auto r = compare("a b");
  EXPECT_THAT(r.out, AllOf(HasSubstr("replay of A: left out: the deck changed before step 5 "
                                     "(optimizer.clip)"),
                           Not(HasSubstr("caused the difference"))));
}

// Micro-batches of other sizes only round differently.
TEST_F(Compare, ARestartThatChangedTheRoundingIsNoFaultOfAMachine) {
  const std::string kept = "schedule.shape=constant checkpoint.keep_last=1 ";
  train("a", kept + "train.microbatch=2");
  std::filesystem::copy(folder.path() / "a", folder.path() / "b",
                        std::filesystem::copy_options::recursive);
  train("a", kept + "train.steps=8 train.microbatch=1 --restart latest");
  train("b", kept + "train.steps=8 train.microbatch=1 optimizer.lr=1e-2 --restart latest");
  EXPECT_THAT(compare("a b").out, AllOf(HasSubstr("replay of A, steps 1 to 5"),
                                        Not(HasSubstr("caused the difference"))));
}

// Its first steps were made on two ranks, and no checkpoint says so any more.
TEST_F(Compare, AGridThatARestartChangedIsNoFaultOfAMachine) {
  const std::string longer = "train.steps=8 checkpoint.every_steps=4 ";
  train("a", longer + "checkpoint.keep_last=0 parallel.data=2", 2);
  std::filesystem::remove_all(folder.path() / step("a", 8));
  train("a", longer + "checkpoint.keep_last=1 --restart latest");
  ASSERT_FALSE(std::filesystem::exists(folder.path() / step("a", 4)));
  train("b", longer);
  const auto r = compare("a b --json");
  const auto json = Json::parse(r.out);
  ASSERT_LE(json.at("digests").at("first"), 4) << r.out;
  const auto& replay = json.at("replays").at(0);
  EXPECT_FALSE(replay.at("differs_from_record_at").is_null()) << r.out;
  EXPECT_EQ(replay.at("faulty"), false) << r.out;
  EXPECT_THAT(compare("a b").out, Not(HasSubstr("caused the difference")));
}

// The gradient of the second MLP layers' weights, larger by a factor.
test::Tampering::After scaled(float by) {
  return [by](const kernel::Operation& operation) {
    const auto* const o = std::get_if<kernel::Matmul>(&operation);
    // [C, F], summed over tokens: a is the transpose of what has a row for each.
    const bool mine = o && o->c_MN.extent[0] == 32 && o->c_MN.extent[1] == 128 &&
                      o->a_MK.stride[0] == 1 && o->a_MK.stride[1] == 32;
    if (!mine) return;
    auto* const c = reinterpret_cast<float*>(o->c_MN.data);
    for (std::int64_t i = 0; i < o->c_MN.count(); ++i) c[i] *= by;
  };
}

TEST_F(Compare, AGradientOffByAFactorIsNotExplainedByRounding) {
  train("a", "train.batch=2 checkpoint.every_steps=1");  // one microbatch
  Host host{1};
  test::Tampering backend{host};
  record("same", backend);
  EXPECT_EQ(compare("a same --no-replay").code, 0);
  backend.after = scaled(1 + 1e-5F);
  record("b", backend);
  const auto json = compare_json("a b", 1);
  EXPECT_EQ(json.at("verdict"), "differ");
  EXPECT_EQ(json.at("digests").at("first"), 1);
  EXPECT_EQ(json.at("digests").at("differ").at(0).at("parameter"), "blocks.0.ffn_out.weight");
  EXPECT_EQ(json.at("replays").at(1).at("faulty"), true);
  for (const auto& j : json.at("rounding").at("judged")) {
    const bool planted = j.value("array", "") == "moment1" &&
                         j.at("parameter").get<std::string>().ends_with("ffn_out.weight");
    if (!planted) continue;
    EXPECT_FALSE(j.at("explained").get<bool>()) << j;
    EXPECT_NEAR(j.at("alpha"), 1e-5, 1e-6);
    EXPECT_LT(j.at("size"), 14) << "as large as rounding: its projection shows";
  }
}

// In invariant nothing is explained, and the record that its own replay contradicts is named.
TEST_F(Compare, AFaultOfAnInvariantRunIsLaidToItsMachine) {
  const std::string exact = "run.exactness=invariant run.exact_chunk=8 checkpoint.every_steps=0 ";
  train("a", exact + "parallel.data=2", 2);
  train("c", exact);
  EXPECT_EQ(compare("a c").code, 0);
  Host host{1};
  test::Tampering backend{host};
  int steps = 0;
  backend.after = [&](const kernel::Operation& o) {
    if (std::get_if<kernel::Update>(&o)) ++steps;
    const auto* const product = std::get_if<kernel::Matmul>(&o);
    // Once, in the second step: a product of blocks' second MLP layer in the forward pass.
    if (steps != 2 || !product || product->c_MN.extent[1] != 32 || product->a_MK.extent[1] != 128)
      return;
    test::flip(product->c_MN, 77, 20);
    ++steps;
  };
  record("b", backend, "c");
  const auto r = compare("a b");
  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_THAT(
      r.out,
      AllOf(HasSubstr("step 3 is the first that differs"), HasSubstr("all equal until step 2"),
            HasSubstr("replay of A, steps 1 to 3 on one rank: bitwise equal to its record"),
            HasSubstr("the machine or the program with which B ran"),
            HasSubstr("rounding: not tested: run.exactness")));
}

}  // namespace
}  // namespace trireme
