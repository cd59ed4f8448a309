// precision.products = "fp8": which weights it applies to, in which passes, and on which backends.
#include <gmock/gmock.h>

#include "kernels/host/host.hpp"
#include "lib/base/error.hpp"
#include "tests/support/dry.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> in_fp8(const ModelConfig& model, const Fp8Weights& which = {},
                                const AdapterConfig& adapter = {}) {
  std::vector<std::string> names;
  for (const auto& p : with_fp8(make_spec(model, adapter), which).params)
    if (p.products == ProductType::fp8) names.push_back(p.name);
  return names;
}

TEST(Fp8Weights, AreThoseOfLinearLayersInBlocks) {
  auto model = test::tiny_gpt2();
  model.layers = 1;
  EXPECT_THAT(in_fp8(model), ElementsAre("blocks.0.qkv.weight", "blocks.0.projection.weight",
                                         "blocks.0.ffn_in.weight", "blocks.0.ffn_out.weight"));
  EXPECT_EQ(in_fp8(model, {}, {.rank = 2}).size(), 4U);
}

TEST(Fp8Weights, IncludeASharedExpertButNoRoutedOne) {
  auto model = test::tiny_mixture();
  model.layers = 1;
  model.dense_layers = {};
  model.shared_expert_width = 8;
  EXPECT_THAT(in_fp8(model), ElementsAre("blocks.0.qkv.weight", "blocks.0.projection.weight",
                                         "blocks.0.shared_expert.ffn_in.weight",
                                         "blocks.0.shared_expert.ffn_out.weight"));
}

TEST(Fp8Weights, LeaveOutWhatIsExcepted) {
  const auto model = test::tiny_gpt2();
  EXPECT_THAT(in_fp8(model, {.except = {"blocks.0.*", "*.qkv.*", "*.ffn_in.*"}}),
              ElementsAre("blocks.1.projection.weight", "blocks.1.ffn_out.weight"));
}

TEST(Fp8Weights, LeaveOutBlocksAtBothEnds) {
  auto model = test::tiny_gpt2();
  model.layers = 4;
  EXPECT_THAT(in_fp8(model, {.except = {"*.qkv.*", "*.ffn_*"}, .skip_first = 2, .skip_last = 1}),
              ElementsAre("blocks.2.projection.weight"));
  EXPECT_THAT(in_fp8(model, {.skip_first = 3, .skip_last = 1}), IsEmpty());
}

TEST(Fp8Weights, IncludeTheHeadOnlyOnRequest) {
  auto model = test::tiny_gpt2();
  const Fp8Weights head{.skip_first = model.layers, .head = true};
  model.tied = false;
  EXPECT_THAT(in_fp8(model, head), ElementsAre("head.weight"));
  model.tied = true;
  EXPECT_THAT(in_fp8(model, head), ElementsAre("embedding.weight"));
  EXPECT_THAT(in_fp8(model, {.except = {"*"}, .head = true}), IsEmpty());
}

// The embedding needs the numbers of a tied head, and DoRA those below its adapters.
TEST(Fp8Gathers, AreOfWeightsThatOnlyProductsInFp8Use) {
  auto model = test::tiny_gpt2();
  model.layers = 1;
  const auto sent = [&](const AdapterConfig& adapter) {
    const auto spec = with_fp8(make_spec(model, adapter), {.head = true});
    int n = 0;
    for (std::size_t i = 0; i < spec.params.size(); ++i)
      n += can_be_sent_in_fp8(spec, ParamId::at(i));
    return n;
  };
  model.tied = true;
  EXPECT_EQ(sent({}), 4);
  EXPECT_EQ(sent({.rank = 2}), 4);
  EXPECT_EQ(sent({.rank = 2, .method = AdapterMethod::dora, .patterns = {"*.qkv"}}), 3);
  EXPECT_EQ(sent({.rank = 2, .base = BaseType::bf16}), 4);
  EXPECT_EQ(sent({.rank = 2, .base = BaseType::nf4}), 0);
  model.tied = false;
  EXPECT_EQ(sent({}), 5);
}

struct Losses {
  double held_out, trained;
};

// The loss of an evaluation before the first step, and that of the first step.
Losses losses(ProductType products, const Fp8Weights& which = {}) {
  auto setup = test::setup_of(test::tiny_llama(), test::plain_sgd(), DType::f32);
  setup.products = products;
  setup.fp8 = which;
  Host b(1);
  const Workspace scratch(b);
  Trainer trainer(b, {}, setup);
  trainer.store().initialize(3, 1);
  const double held_out = trainer.evaluate(test::random_batch(setup.model, 3, 20)).sum;
  return {held_out, trainer.step(0, 1e-2, std::vector{test::random_batch(setup.model, 3, 0)}).loss};
}

TEST(Fp8Training, RoundsInTrainingAlone) {
  const auto plain = losses(ProductType::compute), fp8 = losses(ProductType::fp8);
  EXPECT_EQ(fp8.held_out, plain.held_out);
  EXPECT_NE(fp8.trained, plain.trained);
  EXPECT_NEAR(fp8.trained, plain.trained, 0.02 * plain.trained);
}

TEST(Fp8Training, ExceptionsAreNotRounded) {
  const auto plain = losses(ProductType::compute), fp8 = losses(ProductType::fp8),
             part = losses(ProductType::fp8, {.except = {"blocks.0.*"}}),
             none = losses(ProductType::fp8, {.except = {"blocks.*"}});
  EXPECT_EQ(none.trained, plain.trained);
  EXPECT_NE(part.trained, plain.trained);
  EXPECT_NE(part.trained, fp8.trained);
}

TEST(Fp8Training, RoundsTheHeadOnRequest) {
  const auto plain = losses(ProductType::compute),
             head = losses(ProductType::fp8, {.except = {"blocks.*"}, .head = true});
  EXPECT_EQ(head.held_out, plain.held_out);
  EXPECT_NE(head.trained, plain.trained);
  EXPECT_NEAR(head.trained, plain.trained, 0.02 * plain.trained);
}

TEST(Fp8Training, NeedsABackendThatMultipliesInFp8) {
  auto setup = test::setup_of(test::tiny_llama(), test::plain_sgd(), DType::f32);
  setup.products = ProductType::fp8;
  auto target = roomy_target();
  target.properties.fp8 = false;
  Dry dry(target);
  const Workspace scratch(dry);
  const auto refusal = [&] {
    return message_of<Error>([&] { const Trainer trainer(dry, {}, setup); });
  };
  EXPECT_THAT(refusal(), HasSubstr("compute capability 9.0"));
  setup.trainable = false;
  EXPECT_EQ(refusal(), "");
}

}  // namespace
}  // namespace trireme
