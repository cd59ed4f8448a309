// Gradients of a real step: cut into other microbatches they differ by rounding, times 1 + 1e-5
// they do not.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/host/host.hpp"
#include "kernels/rounding/rounding.hpp"
#include "lib/compare/rounding.hpp"
#include "lib/compare/tensors.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

ModelConfig model(const ModelConfig& like) {
  auto c = like;
  c.width = 48;
  c.heads = 6;
  c.head_dim = 0;
  c.ffn_width = 80;
  c.max_context = 16;
  return completed(c);
}

// Of one step on 8 samples, `each` at a time.
TensorValues gradients(const ModelConfig& c, Backend& backend, std::int64_t each) {
  Workspace scratch(backend);
  auto setup = test::setup_of(c, test::adamw(), DType::f32);
  setup.dropout = 0.1;
  Trainer trainer(backend, {}, setup);
  trainer.store().initialize(3, 1);
  std::vector<Batch> microbatches;
  for (std::int64_t s = 0; s < 8; s += each) microbatches.push_back(test::random_batch(c, each, s));
  trainer.step(0, 1e-3, microbatches);
  return gradients_of(trainer);
}

class RoundedGradients : public testing::TestWithParam<bool> {
 protected:
  RoundedGradients() {
    Host host(1);
    still = gradients(c, host, 4);
    for (int r = 1; r <= rounding_replays; ++r) {
      Rounding moved(std::make_unique<Host>(1), static_cast<std::uint64_t>(r));
      for (const auto& d : compare_values(still, gradients(c, moved, 4)))
        spread[d.name].add(d.tally);
    }
  }
  bool is_explained(const TensorDifference& d) {
    return explained(judge(d.tally, spread[d.name]), spread.size());
  }

  ModelConfig c = model(GetParam() ? test::tiny_llama() : test::tiny_gpt2());
  ModelSpec spec = make_spec(c);
  TensorValues still;
  std::map<TensorName, Spread> spread;
};

TEST_P(RoundedGradients, OtherMicrobatchesAreExplained) {
  Host host(1);
  for (const std::int64_t each : {1, 2, 8}) {
    const auto all = compare_values(still, gradients(c, host, each));
    EXPECT_EQ(all.size(), spec.params.size());
    EXPECT_GT(count_differing(all), all.size() / 2);
    for (const auto& d : all) {
      EXPECT_TRUE(is_explained(d)) << each << ": " << spec.params[d.name.param.index()].name;
      EXPECT_LT(judge(d.tally, spread[d.name]).size, 2);
    }
  }
}

TEST_P(RoundedGradients, AFactorOfOneWeightIsNot) {
  Host host(1);
  const auto other = gradients(c, host, 2);
  for (const double factor : {1 + 1e-5, 1 - 1e-5}) {
    auto scaled = other;
    for (auto& [_, values] : scaled)
      for (auto& x : std::get<std::vector<float>>(values)) x = static_cast<float>(x * factor);
    for (const auto& d : compare_values(still, scaled)) {
      if (d.tally.elements < 2000) continue;
      const auto j = judge(d.tally, spread[d.name]);
      EXPECT_FALSE(is_explained(d))
          << spec.params[d.name.param.index()].name << " " << j.projection;
      EXPECT_NEAR(j.alpha, factor - 1, 1e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RoundedGradients, testing::Bool(),
                         [](const auto& info) { return info.param ? "Llama" : "Gpt2"; });

}  // namespace
}  // namespace trireme
