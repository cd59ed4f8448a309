// A whole model's gradient against central differences, in f64 on the reference backend.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/ref/ref.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

class ModelGradient : public testing::TestWithParam<const char*> {};

// A model, and how blocks are trained.
struct TrainedModel {
  ModelConfig model;
  double dropout = 0;
  Recompute recompute = Recompute::none;
};

static TrainedModel model_named(std::string_view name) {
  if (name == "gpt2") return {test::tiny_gpt2()};
  if (name == "llama") return {test::tiny_llama()};
  if (name == "qwen") return {test::tiny_qwen()};
  if (name == "learned_qk_norm") {
    auto c = test::tiny_gpt2();
    c.qk_norm = true;
    c.head_dim = 5;
    return {c, 0, Recompute::block};
  }
  if (name == "olmo2") {
    auto c = test::tiny_olmo2();
    c.norm_eps = 0.01;
    return {c};
  }
  if (name == "gemma2") return {test::tiny_gemma2()};
  if (name == "gemma3") return {test::tiny_gemma3()};
  if (name == "granite") return {test::tiny_granite()};
  if (name == "glm4") return {test::tiny_glm4()};
  if (name == "norms_on_both_sides") {  // of layers, with biases
    auto c = test::tiny_gpt2();
    c.norm_place = NormPlace::both;
    c.norm_eps = 0.01;  // what norms behind take is of size 0.001
    return {c, 0.2, Recompute::block};
  }
  if (name == "mixture_between_norms") {
    auto c = test::tiny_mixture();
    c.norm_place = NormPlace::both;
    c.norm_eps = 0.01;
    return {c};
  }
  if (name == "mixture") return {test::tiny_mixture()};
  if (name == "gpt_oss") {
    auto c = test::tiny_gpt_oss();
    // A bias moves all tokens at once, and then some would choose other experts.
    c.experts_per_token = c.experts;
    return {c};
  }
  if (name == "sigmoid_mixture") return {test::tiny_sigmoid_mixture(), 0, Recompute::block};
  if (name == "gpt2_dropout") return {test::tiny_gpt2(), 0.3};
  expect(name == "llama_dropout_recompute", "the flavour is known");
  return {test::tiny_llama(), 0.3, Recompute::block};
}

// Logits of routers apart, so that no choice changes where a weight does.
static void spread_routers(Store& store) {
  for (const auto& block : store.spec().blocks) {
    if (block.router == ParamId{}) continue;
    auto w = test::read<double>(store, block.router);
    for (double& x : w) x *= 30;
    test::write<double>(store, block.router, w);
  }
}

// Biases begin at 0, where some gradients do not depend on them. Those of experts reach the limits
// of clamped gates.
static void draw_expert_biases(Store& store) {
  Draw draw(1, 1);
  for (const auto& block : store.spec().blocks)
    for (const auto& [biases, size] :
         {std::pair(block.expert_in_bias, 9.0), {block.expert_out_bias, 0.3}})
      for (const auto p : biases) {
        auto b = test::read<double>(store, p);
        for (double& x : b) x = draw.real(-size, size);
        test::write<double>(store, p, b);
      }
}

// SGD with rate 1 subtracts the gradient, so it can be read off the weights.
TEST_P(ModelGradient, MatchesCentralDifferences) {
  const auto [config, dropout, recompute] = model_named(GetParam());
  Ref backend;
  const Workspace scratch(backend);
  auto setup = test::setup_of(config, test::plain_sgd(), DType::f64);
  setup.dropout = dropout;
  setup.recompute = recompute;
  setup.balance = config.experts > 0 ? Balance::sample : Balance::none;
  setup.balance_weight = 0.3;
  setup.router_z = 0.2;
  Trainer trainer(backend, {}, setup);
  auto& store = trainer.store();
  store.initialize(3, 1);
  spread_routers(store);
  draw_expert_biases(store);
  const std::vector<Batch> batches{test::random_batch(config, 2, 0),
                                   test::random_batch(config, 1, 2)};
  const auto before = test::read_all<double>(store);
  const auto put_back = [&] {
    for (std::size_t i = 0; i < before.size(); ++i)
      test::write<double>(store, ParamId::at(i), before[i]);
  };
  const auto loss_at = [&](ParamId p, std::size_t e, double x) {
    put_back();
    auto w = before[p.index()];
    w[e] = x;
    test::write<double>(store, p, w);
    const auto result = trainer.step(4, 0, batches);
    const auto mixtures = static_cast<double>(result.routing.layers.size());
    return result.loss + mixtures * (setup.balance_weight * result.routing.balance +
                                     setup.router_z * result.routing.z);
  };

  ASSERT_EQ(trainer.step(4, 1, batches).outcome, StepOutcome::updated);
  const auto after = test::read_all<double>(store);

  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto p = ParamId::at(i);
    const auto n = before[i].size();
    for (std::size_t e : {std::size_t{0}, n / 3, n / 2 + 1, n - 1}) {
      if (e >= n) continue;
      // Fourth order: the residual stream is of size 0.02, so a step of 1e-4 leaves a relative
      // error of (1e-4 / 0.02)^4 / 30 = 2e-11, and rounding one of 3e-16 / 1e-4 / 1e-2 = 3e-10.
      const double h = 1e-4, x = before[i][e];
      const double slope = (8 * (loss_at(p, e, x + h) - loss_at(p, e, x - h)) -
                            (loss_at(p, e, x + 2 * h) - loss_at(p, e, x - 2 * h))) /
                           (12 * h);
      const double gradient = before[i][e] - after[i][e];
      EXPECT_NEAR(gradient, slope, 1e-7 * std::max(std::fabs(slope), 1e-2))
          << store.spec().params[i].name << "[" << e << "]";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Flavours, ModelGradient,
                         testing::Values("gpt2", "llama", "qwen", "learned_qk_norm", "gpt2_dropout",
                                         "llama_dropout_recompute", "olmo2", "norms_on_both_sides",
                                         "mixture_between_norms", "gemma2", "gemma3", "granite",
                                         "glm4", "mixture", "sigmoid_mixture", "gpt_oss"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace trireme
