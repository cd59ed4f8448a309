// Faults of hardware: a bit that flips in what a step makes is found by making it twice, one in
// what lies in memory by its digest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "kernels/host/host.hpp"
#include "kernels/ref/ref.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/tampering.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

using test::flip_in;
using testing::HasSubstr;
using testing::MatchesRegex;

ModelConfig model() {
  auto c = test::tiny_llama();
  c.max_context = 8;
  return completed(c);
}

struct Kind {
  const char* name;
  DType compute;
  std::int64_t exact_chunk;
  Recompute recompute = Recompute::none;
};
void PrintTo(const Kind& k, std::ostream* to) {
  *to << k.name;
}

class ReplayTest : public testing::TestWithParam<Kind> {
 protected:
  static TrainerSetup setup() {
    auto s = test::setup_of(model(), test::adamw(), GetParam().compute);
    s.exact_chunk = GetParam().exact_chunk;
    s.check_memory = true;
    s.recompute = GetParam().recompute;
    return s;
  }
  ReplayTest() { trainer.store().initialize(3, 1); }

  static std::vector<Batch> batches(int s) {
    return {test::random_batch(model(), 2, 4 * s), test::random_batch(model(), 2, 4 * s + 2)};
  }
  StepResult step(int s = 0, Replay replay = Replay::yes) {
    return trainer.step(s, 1e-2, batches(s), {}, replay);
  }
  std::string text_of_fault() {
    try {
      return step().fault;
    } catch (const SharedError& e) {
      return e.what();
    }
  }
  DigestTable digests_of_clean_step() {
    Trainer clean(*inner, {}, setup());
    clean.store().initialize(3, 1);
    clean.step(0, 1e-2, batches(0));
    return clean.digests();
  }

  std::unique_ptr<Backend> inner = GetParam().compute == DType::f64
                                       ? std::unique_ptr<Backend>(std::make_unique<Ref>())
                                       : std::make_unique<Host>(1);
  test::Tampering backend{*inner};
  Workspace scratch{backend};
  Trainer trainer{backend, {}, setup()};
};
INSTANTIATE_TEST_SUITE_P(Kinds, ReplayTest,
                         testing::Values(Kind{"f32", DType::f32, 0}, Kind{"f64", DType::f64, 0},
                                         Kind{"counted", DType::f32, 4},
                                         Kind{"recompute", DType::f32, 4, Recompute::block}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(ReplayTest, StepsThatAreComputedTwiceAreThoseThatAreNot) {
  Trainer once(*inner, {}, setup());
  once.store().initialize(3, 1);
  for (int s = 0; s < 3; ++s) {
    const auto a = step(s), b = once.step(s, 1e-2, batches(s));
    EXPECT_EQ(a.fault, "");
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.grad_norm, b.grad_norm);
  }
  EXPECT_EQ(trainer.digests(), once.digests());
}

// An activation: the first norm of block 1 in the forward of the first microbatch.
TEST_P(ReplayTest, ABitOfAnActivationIsFoundAndDoesNotStay) {
  const auto clean = digests_of_clean_step();
  backend.after = flip_in(1, &kernel::Swiglu::y_TF, GetParam().compute == DType::f64 ? 40 : 12);

  const auto fault = step().fault;

  EXPECT_THAT(fault,
              HasSubstr("differ first in the forward pass of blocks.1: microbatch 0 on rank 0 ("));
  EXPECT_THAT(fault, HasSubstr("a third computation gave the second result again"));
  EXPECT_EQ(trainer.digests(), clean);
}

// In the second execution; in `counted` its first microbatch is the step's last.
TEST_P(ReplayTest, ABitOfAGradientIsFoundInEitherExecution) {
  const auto clean = digests_of_clean_step();
  const int backward = 2 * 2;  // a step's calls: two blocks, two microbatches
  backend.after = flip_in(backward, &kernel::SwigluGrad::dgate_up_T2F,
                          GetParam().compute == DType::f64 ? 40 : 14);

  const auto fault = step().fault;

  EXPECT_THAT(fault, HasSubstr("differ first in the backward pass of blocks.1: microbatch " +
                               std::string(GetParam().exact_chunk > 0 ? "1" : "0")));
  EXPECT_THAT(fault, HasSubstr("a third computation gave the first result again"));
  EXPECT_EQ(trainer.digests(), clean);
}

// A sum of weight gradients, which no part hands on.
TEST_P(ReplayTest, ABitOfASumIsFound) {
  const auto clean = digests_of_clean_step();
  backend.after = [&, left = 2](const kernel::Operation& o) mutable {
    if (!std::holds_alternative<kernel::SumSquares>(o) || --left != 1) return;
    const auto id = trainer.store().spec().blocks[0].ffn_out;
    const auto where = *trainer.store().layout().of_param[id.index()];
    test::flip(trainer.store().gradients().sum(where.segment).view(), where.slot.begin + 3, 20);
  };

  const auto fault = step().fault;

  EXPECT_THAT(
      fault,
      HasSubstr(
          "in the sum of the gradient of " +
          trainer.store().spec().params[trainer.store().spec().blocks[0].ffn_out.index()].name));
  EXPECT_EQ(trainer.digests(), clean);
}

TEST_P(ReplayTest, ThreeResultsEndTheRun) {
  backend.after = [n = 0](const kernel::Operation& o) mutable {
    const auto* const it = std::get_if<kernel::Swiglu>(&o);
    if (it && n++ % 4 == 1)  // in each execution, another bit
      test::flip(it->y_TF, n / 4, it->y_TF.dtype == DType::f64 ? 45 : 14);
  };
  const auto before = trainer.digests();

  EXPECT_THAT(text_of_fault(), HasSubstr("computed three times with three different results"));
  const auto after = trainer.digests();
  EXPECT_EQ(after.of[1], before.of[1]) << "weights are as they were";
}

TEST_P(ReplayTest, ABitOfAWeightOrAMomentIsFoundBeforeItIsUpdated) {
  auto& store = trainer.store();
  const auto id = store.spec().blocks[1].qkv;
  const auto where = *store.layout().of_param[id.index()];
  for (const bool weight : {true, false}) {
    step(0, Replay::no);
    const auto views =
        store.shards().views(where.segment, {where.slot.begin, where.slot.begin + 8});
    test::flip(weight ? views.master : views.arrays[1], 5, 3);
    try {
      step(1, Replay::no);
      ADD_FAILURE() << "no fault";
    } catch (const MemoryFault& e) {
      EXPECT_THAT(e.what(), HasSubstr(fmt::format("{} of {} (unit blocks.1) on rank 0 (",
                                                  weight ? "weights" : store.arrays()[1],
                                                  store.spec().params[id.index()].name)));
    }
    test::flip(weight ? views.master : views.arrays[1], 5, 3);
    step(1, Replay::no);
  }
}

// What a freeze rule does to arrays is no fault.
TEST_P(ReplayTest, FreezingAndThawingIsNoFault) {
  auto s = setup();
  s.freeze = {{"blocks.0.*", 1, 3, ThawMoments::fresh}, {"blocks.1.*", 2, 4, ThawMoments::keep}};
  Trainer freezing(backend, {}, s);
  freezing.store().initialize(3, 1);
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(freezing.step(i, 1e-2, batches(i), {}, Replay::yes).fault, "");
}

// Else the steps that it spoils would be skipped one after the other, for a reason that is not so.
TEST_P(ReplayTest, AWeightThatIsNoNumberAnyMoreIsAFaultOfMemory) {
  auto& store = trainer.store();
  const auto where = *store.layout().of_param[store.spec().blocks[1].qkv.index()];
  step(0, Replay::no);
  const auto weights =
      store.shards().views(where.segment, {where.slot.begin, where.slot.begin + 8}).master;
  backend.put(Queue::compute, kernel::Fill{.dst = weights, .value = std::nan("")});
  EXPECT_THROW(step(1, Replay::no), MemoryFault);
  EXPECT_THROW(step(1, Replay::yes), MemoryFault);
}

// Nor is it where no step between was an update.
TEST_P(ReplayTest, ThawingAfterSkippedStepsIsNoFault) {
  auto s = setup();
  s.freeze = {{"blocks.0.*", 1, 2, ThawMoments::fresh}};
  Trainer freezing(backend, {}, s);
  freezing.store().initialize(3, 1);
  auto masked = batches(1);
  for (auto& b : masked) {
    std::ranges::fill(b.targets_BT, no_target);
    b.valid = 0;
  }
  freezing.step(0, 1e-2, batches(0));
  EXPECT_EQ(freezing.step(1, 1e-2, masked).outcome, StepOutcome::no_targets);
  EXPECT_EQ(freezing.step(2, 1e-2, batches(2)).outcome, StepOutcome::updated);
}

TEST_P(ReplayTest, DigestsHaveNoGradientsOfAStepWithoutTargets) {
  auto masked = batches(0);
  for (auto& b : masked) {
    std::ranges::fill(b.targets_BT, no_target);
    b.valid = 0;
  }
  step(0);
  EXPECT_TRUE(trainer.digests().of[0][0]);
  trainer.step(1, 1e-2, masked, {}, Replay::yes);
  EXPECT_FALSE(trainer.digests().of[0][0]);
}

}  // namespace
}  // namespace trireme
