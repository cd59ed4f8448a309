// data.packing = "documents" where there is little: microbatches and ranks that hold nothing but
// padding, a document as long as a sample and one of a token. Losses, gradients and what routers
// do are those of each document alone, by causal attention on one rank.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "kernels/ref/ref.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/tiny.hpp"

namespace trireme::test {
namespace {

using Lengths = std::vector<std::int64_t>;  // of the documents of a sample

std::vector<Lengths> samples_of(std::int64_t T) {
  std::vector<Lengths> all{{T}, {1}, {}, {5, 1, T - 7}, {}, {}, {2}, {}};
  if (T == 12) all.push_back({});  // for three ranks
  return all;
}

// A third of the targets does not count.
void add_document(const ModelConfig& c, std::int64_t number, std::int64_t n, Batch& to) {
  const auto from = random_batch(c, 1, number);
  const auto start =
      static_cast<std::int32_t>(to.ids_BT.size() % static_cast<std::size_t>(c.max_context));
  for (std::int64_t t = 0; t < n; ++t) {
    const auto at = static_cast<std::size_t>(t);
    to.ids_BT.push_back(from.ids_BT[at]);
    to.targets_BT.push_back(t % 3 == 1 ? no_target : from.targets_BT[at]);
    to.start_BT.push_back(start);
    to.valid += to.targets_BT.back() != no_target;
  }
}

void end_sample(const ModelConfig& c, Batch& b) {
  const auto used = static_cast<std::int64_t>(b.ids_BT.size());
  b.tokens_B.push_back(used);
  for (auto t = used; t < c.max_context; ++t) {
    b.ids_BT.push_back(0);
    b.targets_BT.push_back(no_target);
    b.start_BT.push_back(static_cast<std::int32_t>(t));
  }
}

struct Made {
  std::vector<Batch> packed;  // a sample each
  std::vector<Batch> alone;   // a document each, without starts
  std::int64_t tokens = 0;
};
Made made_of(const ModelConfig& c) {
  Made made;
  for (const auto& lengths : samples_of(c.max_context)) {
    Batch sample;
    sample.sample_B = {std::ssize(made.packed)};
    for (const auto n : lengths) {
      Batch one;
      one.sample_B = {std::ssize(made.alone)};
      add_document(c, std::ssize(made.alone), n, one);
      add_document(c, std::ssize(made.alone), n, sample);
      end_sample(c, one);
      one.start_BT.clear();
      made.alone.push_back(std::move(one));
      made.tokens += n;
    }
    end_sample(c, sample);
    made.packed.push_back(std::move(sample));
  }
  return made;
}

struct Outcome {
  StepResult step;
  LossSum evaluated;
  std::vector<std::vector<double>> weights;  // that this rank holds
};
Outcome outcome_of(Trainer& trainer, double lr, const std::vector<Batch>& batches) {
  trainer.store().initialize(3, 1);
  const auto evaluated = trainer.evaluate(batches);
  Outcome o{trainer.step(0, lr, batches), evaluated, {}};
  for (std::size_t i = 0; i < trainer.store().spec().params.size(); ++i)
    o.weights.push_back(weights_here(trainer.store(), ParamId::at(i)));
  return o;
}

// Of a flavour's documents alone, made once.
const Outcome& alone(Backend& backend, ParityCase c, const Made& made) {
  static std::map<std::string, Outcome> all;
  if (const auto it = all.find(c.flavour); it != all.end()) return it->second;
  c.grid = {};
  c.zero = {};
  c.documents = false;
  Trainer trainer(backend, {}, parity_setup(c));
  return all.emplace(c.flavour, outcome_of(trainer, learning_rate(c), made.alone)).first->second;
}

std::vector<ParityCase> cases() {
  const int n = world().size();
  std::vector<ParityCase> all;
  for (const char* flavour : {"mixture", "sigmoid", "gpt_oss", "two_experts", "one", "gqa"})
    for (const Grid& grid : {Grid{1, n, 1}, Grid{1, 1, n}, Grid{n, 1, 1}, Grid{2, 1, n / 2},
                             Grid{1, 2, n / 2}, Grid{1, n, 1, n}}) {
      ParityCase c;
      c.flavour = flavour;
      const bool experts =
          c.flavour == "mixture" || c.flavour == "two_experts" || c.flavour == "gpt_oss";
      if (grid.ranks() != n || (grid.expert > 1 && !experts)) continue;
      c.grid = grid;
      c.documents = true;
      c.size = n == 3 ? 12 : 16;
      c.layers = 4;
      c.steps = 1;
      c.zero.stage = all.size() % 2 == 0 ? 3 : 0;
      c.recompute = all.size() % 3 == 0 ? Recompute::block : Recompute::none;
      if (grid.pipe > 1 && all.size() % 2 == 0) c.schedule = ScheduleKind::zero_bubble;
      all.push_back(c);
    }
  return all;
}

TEST(Padding, IsNothing) {
  if (world().size() > 4) GTEST_SKIP() << "2 to 4 ranks are enough";
  for (const auto& c : cases()) {
    SCOPED_TRACE(name_of(c));
    if (!next_case(name_of(c))) break;
    const auto model = parity_model(c);
    const auto made = made_of(model);
    Ref backend;
    const Workspace scratch(backend);

    const auto& want = alone(backend, c, made);

    const auto& axes = parity_axes(c);
    Trainer trainer(backend, axes, parity_setup(c));
    std::vector<Batch> mine;
    for (auto i = static_cast<std::size_t>(axes.at.data); i < made.packed.size();
         i += static_cast<std::size_t>(axes.grid.data))
      mine.push_back(trainer.share(made.packed[i]));
    const auto got = outcome_of(trainer, learning_rate(c), mine);

    EXPECT_EQ(got.step.outcome, StepOutcome::updated);
    EXPECT_EQ(got.step.tokens, made.tokens);
    EXPECT_EQ(got.step.valid, want.step.valid);
    EXPECT_NEAR(got.step.loss, want.step.loss, f64_bound * want.step.loss);
    EXPECT_NEAR(got.step.grad_norm, want.step.grad_norm, f64_bound * want.step.grad_norm);
    EXPECT_EQ(got.evaluated.valid, want.evaluated.valid);
    EXPECT_NEAR(got.evaluated.sum, want.evaluated.sum, f64_bound * want.evaluated.sum);
    EXPECT_EQ(got.step.routing.loads, want.step.routing.loads);
    EXPECT_NEAR(got.step.routing.balance, want.step.routing.balance, f64_bound);
    EXPECT_NEAR(got.step.routing.z, want.step.routing.z, f64_bound * (1 + want.step.routing.z));
    for (std::size_t i = 0; i < want.weights.size(); ++i) {
      const auto begin = static_cast<std::size_t>(trainer.store().own(ParamId::at(i)).begin);
      double worst = 0;
      for (std::size_t e = 0; e < got.weights[i].size(); ++e)
        worst = std::max(worst, std::fabs(got.weights[i][e] - want.weights[i][begin + e]));
      EXPECT_LE(worst, f64_bound) << trainer.store().spec().params[i].name;
    }
  }
}

}  // namespace
}  // namespace trireme::test
