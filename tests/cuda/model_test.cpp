// Every gradient of a tiny model, on each backend that computes, against the oracle in f64. Head
// dims of 4 take our own attention kernel on a GPU, those of 8 and 16 cuDNN's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "kernels/host/kernels.hpp"
#include "kernels/ref/ref.hpp"
#include "lib/base/array_names.hpp"
#include "tests/support/contract.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

struct Flavour {
  const char* name;
  ModelConfig (*base)();
  std::int64_t width, context;
  double dropout;
  Recompute recompute;
  std::int64_t head_dim = 0;  // width / heads
};

constexpr Flavour flavours[] = {
    {"gpt2", test::tiny_gpt2, 12, 7, 0, Recompute::none},
    {"gpt2_dropout", test::tiny_gpt2, 48, 21, 0.3, Recompute::none},
    {"gpt2_dropout_recompute", test::tiny_gpt2, 12, 7, 0.3, Recompute::block},
    {"llama", test::tiny_llama, 24, 7, 0, Recompute::none},
    {"llama_recompute", test::tiny_llama, 96, 21, 0, Recompute::block},
    {"llama_dropout_recompute", test::tiny_llama, 48, 21, 0.3, Recompute::block},
    {"qwen", test::tiny_qwen, 24, 7, 0, Recompute::none, 6},
    {"qwen_dropout_recompute", test::tiny_qwen, 48, 21, 0.3, Recompute::block, 16},
    {"granite", test::tiny_granite, 24, 7, 0, Recompute::none},
    {"glm4_dropout_recompute", test::tiny_glm4, 48, 21, 0.3, Recompute::block, 8},
    {"mixture", test::tiny_mixture, 24, 7, 0, Recompute::none},
    {"mixture_dropout_recompute", test::tiny_mixture, 48, 21, 0.3, Recompute::block},
    {"gpt_oss", test::tiny_gpt_oss, 24, 7, 0, Recompute::none, 6},
    {"gpt_oss_recompute", test::tiny_gpt_oss, 96, 21, 0, Recompute::block, 16},
    {"sigmoid_mixture", test::tiny_sigmoid_mixture, 24, 7, 0, Recompute::none},
    {"sigmoid_mixture_recompute", test::tiny_sigmoid_mixture, 96, 21, 0, Recompute::block},
};

// In bf16 a router's choices may turn out otherwise than the oracle's, so it chooses all experts.
ModelConfig model_of(const Flavour& f, DType compute) {
  auto c = f.base();
  if (compute == DType::bf16) c.experts_per_token = c.experts;
  c.width = f.width;
  c.head_dim = f.head_dim;
  c.max_context = f.context;
  return completed(c);
}

using Values = std::vector<std::vector<double>>;  // by ParamId

template <class T>
Values read_all(Store& store) {
  Values all;
  for (const auto& w : test::read_all<T>(store)) all.emplace_back(w.begin(), w.end());
  return all;
}

template <class T>
void write_all(Store& store, const Values& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::vector<T> w(values[i].begin(), values[i].end());
    store.write(ParamId::at(i), weights_array, 0, std::as_bytes(std::span(w)));
  }
  store.refresh();
}

// Weights that every type under test holds as they are.
Values weights_of(const ModelConfig& model) {
  Ref backend;
  const Workspace scratch(backend);
  Trainer trainer(backend, {}, test::setup_of(model, test::plain_sgd(), DType::f32));
  trainer.store().initialize(3, 1);
  auto all = read_all<float>(trainer.store());
  for (auto& w : all)
    for (auto& x : w) x = static_cast<float>(bf16(static_cast<float>(x)));
  return all;
}

// Plain SGD subtracts the gradient times the rate, so it can be read off the weights; a large rate
// leaves it all its digits.
constexpr double rate = 1024;

Values gradients(Backend& backend, const Flavour& flavour, const ModelConfig& model, DType compute,
                 const Values& weights) {
  const Workspace scratch(backend);
  auto setup = test::setup_of(model, test::plain_sgd(), compute);
  setup.dropout = flavour.dropout;
  setup.recompute = flavour.recompute;
  const bool again = flavour.recompute == Recompute::block;
  if (again) {
    setup.offload = Offload::inputs;
    setup.chunk_tokens = 16;
  }
  const bool packed = model.experts > 0 && again;
  if (packed) setup.attention = AttentionSpan::document;
  if (model.experts > 0) {
    setup.balance = Balance::sample;
    setup.balance_weight = 0.3;
    setup.router_z = 0.2;
  }
  Trainer trainer(backend, {}, setup);
  auto& store = trainer.store();
  const bool f64 = store.master() == DType::f64;
  f64 ? write_all<double>(store, weights) : write_all<float>(store, weights);
  std::vector<Batch> batches{test::random_batch(model, 2, 0), test::random_batch(model, 2, 2)};
  if (packed)
    for (auto& b : batches) {
      b.start_BT = test::starts_of(b, 4);
      test::pad(b);
    }
  EXPECT_EQ(trainer.step(4, rate, batches).outcome, StepOutcome::updated);
  auto all = f64 ? read_all<double>(store) : read_all<float>(store);
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t e = 0; e < all[i].size(); ++e) all[i][e] = (weights[i][e] - all[i][e]) / rate;
  return all;
}

double largest(const std::vector<double>& v) {
  double most = 0;
  for (double x : v) most = std::max(most, std::fabs(x));
  return most;
}

double length(const Values& all) {
  double sum = 0;
  for (const auto& v : all) sum += std::inner_product(v.begin(), v.end(), v.begin(), 0.0);
  return std::sqrt(sum);
}

Values difference(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t e = 0; e < a[i].size(); ++e) a[i][e] -= b[i][e];
  return a;
}

// A number passes some 11 operations a block and 4 around the blocks, forward and back. Each rounds
// it once to the compute type and adds up to `longest` terms in the wide one; errors of n roundings
// add to less than lambda sqrt(n) of one, as in contract.hpp. `lambda` = 3 for bf16 is two in a
// thousand, of errors that are mostly much smaller than the largest gradient that scales them.
double relative_bound(const ModelConfig& model, DType t) {
  const auto operations = static_cast<double>(2 * (11 * model.layers + 4));
  const auto longest = std::max({model.ffn_width, model.vocab, 4 * model.max_context});
  const double narrow = t == wide(t) ? 0 : 3 * std::sqrt(operations) * roundoff(t);
  return narrow + std::sqrt(operations) * sum_error(t, longest, 1);
}

class ModelGradients : public testing::TestWithParam<std::tuple<Tested, Flavour>> {};

TEST_P(ModelGradients, AreTheOracles) {
  const auto& [tested, flavour] = GetParam();
  if (!can_compute(tested)) GTEST_SKIP() << "this processor cannot multiply bf16";
  const auto model = model_of(flavour, tested.compute);
  const auto weights = weights_of(model);
  Ref ref;
  const auto exact = gradients(ref, flavour, model, DType::f64, weights);

  const auto backend = tested.open(2);
  const auto got = gradients(*backend, flavour, model, tested.compute, weights);

  const auto spec = make_spec(model);
  const auto off = difference(got, exact);
  const double bound = relative_bound(model, tested.compute);
  ASSERT_LT(bound, 0.25);  // or a wrong factor would pass
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const bool has_gradient = spec.params[i].learns_from == LearnsFrom::gradients;
    ASSERT_EQ(largest(exact[i]) > 0, has_gradient) << spec.params[i].name;
    EXPECT_LE(largest(off[i]), bound * largest(exact[i])) << spec.params[i].name;
  }
  // Errors of single elements do not line up.
  EXPECT_LE(length(off), bound / 2 * length(exact));
}

INSTANTIATE_TEST_SUITE_P(Tiny, ModelGradients,
                         testing::Combine(testing::ValuesIn(tested_backends()),
                                          testing::ValuesIn(flavours)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace trireme
