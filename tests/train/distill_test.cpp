// train.objective = "distill": loss and gradients are those of the formula of Hinton et al. 2015,
// computed here from the logits of two models that know nothing of each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "kernels/ref/ref.hpp"
#include "tests/support/named_weights.hpp"

namespace trireme {
namespace {

constexpr double temperature = 1.7, weight = 0.6;

// One model, with its weights where a test may move them.
class Alone {
 public:
  explicit Alone(const ModelConfig& c, std::uint64_t seed)
      : trainer_(backend_, {}, test::setup_of(c, test::plain_sgd(), DType::f64)) {
    trainer_.store().initialize(seed, 1);
  }
  Store& store() { return trainer_.store(); }
  // Of all positions that have a target, in order.
  std::vector<std::vector<double>> logits(std::span<const Batch> batches) {
    std::vector<std::vector<double>> all;
    for (const auto& b : batches) {
      const auto T = b.ids_BT.size() / b.sample_B.size();
      for (std::size_t i = 0; i < b.ids_BT.size(); ++i)
        if (b.targets_BT[i] != no_target)
          all.push_back(trainer_.logits(std::span(b.ids_BT).subspan(i / T * T, i % T + 1)));
    }
    return all;
  }

 private:
  Ref backend_;
  Workspace scratch_{backend_};
  Trainer trainer_;
};

std::vector<double> softmax(std::vector<double> z, double t) {
  double sum = 0;
  for (auto& x : z) sum += x = std::exp(x / t);
  for (auto& x : z) x /= sum;
  return z;
}

// The mean over targets.
double want_of(const std::vector<std::vector<double>>& student,
               const std::vector<std::vector<double>>& teacher, std::span<const Batch> batches) {
  double sum = 0;
  std::size_t n = 0;
  for (const auto& b : batches)
    for (const auto target : b.targets_BT) {
      if (target == no_target) continue;
      const auto p = softmax(teacher[n], temperature), q = softmax(student[n], temperature);
      double divergence = 0;
      for (std::size_t v = 0; v < p.size(); ++v) divergence += p[v] * std::log(p[v] / q[v]);
      sum -= (1 - weight) * std::log(softmax(student[n], 1)[static_cast<std::size_t>(target)]);
      sum += weight * temperature * temperature * divergence;
      ++n;
    }
  return sum / static_cast<double>(n);
}

struct Case {
  const char* name;
  ModelConfig student, teacher;
  Recompute recompute = Recompute::none;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}
// Teachers of another width, depth and kind, some of them under a soft cap.
std::vector<Case> cases() {
  auto wide = test::tiny_llama(), mixture = test::tiny_mixture(), gemma = test::tiny_gemma2(),
       granite = test::tiny_granite();
  for (auto* c : {&wide, &mixture, &gemma, &granite}) c->vocab = test::tiny_gpt2().vocab;
  wide.layers += 1;
  return {{"gpt2_of_llama", test::tiny_gpt2(), wide},
          {"gpt2_of_mixture", test::tiny_gpt2(), mixture},
          {"gpt2_of_gemma", test::tiny_gpt2(), gemma},
          {"gemma_of_gemma", gemma, gemma},
          {"granite_of_granite", granite, granite},
          {"recomputing", test::tiny_gpt2(), wide, Recompute::block}};
}
class Distillation : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Train, Distillation, testing::ValuesIn(cases()),
                         [](const auto& i) { return std::string(i.param.name); });

TrainerSetup setup_of(const Case& c) {
  auto s = test::setup_of(c.student, test::plain_sgd(), DType::f64);
  TeacherSetup teacher{c.teacher, temperature, weight};
  teacher.model.max_context = c.student.max_context;
  s.objective = teacher;
  s.recompute = c.recompute;
  return s;
}

TEST_P(Distillation, IsThatOfTwoModelsAlone) {
  const auto setup = setup_of(GetParam());
  std::vector<Batch> batches;
  for (int m = 0; m < 2; ++m) {
    batches.push_back(test::random_batch(setup.model, 2, 2 * m));
    batches.back().targets_BT[static_cast<std::size_t>(3 + m)] = no_target;
    --batches.back().valid;
  }
  Alone student(setup.model, 3), teacher(teacher_of(setup)->model, 4);
  const auto theirs = teacher.logits(batches);
  const double want = want_of(student.logits(batches), theirs, batches);

  Ref backend;
  const Workspace scratch(backend);
  Trainer trainer(backend, {}, setup);
  test::write_all(trainer.store(), test::weights_of(student.store()));
  test::write_all(trainer.teacher()->store(), test::weights_of(teacher.store()));
  const auto got = trainer.step(0, 1, batches);
  EXPECT_NEAR(got.loss, want, 1e-12);
  EXPECT_EQ(test::weights_of(trainer.teacher()->store()), test::weights_of(teacher.store()));

  // SGD with rate 1 subtracts gradients; some of them against differences.
  for (std::size_t i = 0; i < student.store().spec().params.size(); i += 3) {
    const auto id = ParamId::at(i);
    const auto& name = student.store().spec().params[i].name;
    const auto before = test::read<double>(student.store(), id),
               after = test::read<double>(trainer.store(), id);
    const auto e = before.size() / 3;
    const auto loss_at = [&](double by) {
      auto moved = before;
      moved[e] += by;
      test::write<double>(student.store(), id, moved);
      const double loss = want_of(student.logits(batches), theirs, batches);
      test::write<double>(student.store(), id, before);
      return loss;
    };
    const double h = 1e-4;
    const double slope =
        (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
    EXPECT_NEAR(before[e] - after[e], slope, 1e-9) << name;
  }
}

// Of a twin and of the teacher alone nothing is learnt.
TEST(Distillation, NothingIsLearntOfATwin) {
  const auto c = test::tiny_llama();
  auto setup = setup_of({"", c, c});
  std::get<TeacherSetup>(setup.objective).weight = 1;
  Ref backend;
  const Workspace scratch(backend);
  Trainer trainer(backend, {}, setup);
  trainer.store().initialize(3, 1);
  trainer.teacher()->store().initialize(3, 1);
  const auto batch = test::random_batch(c, 2, 0);
  const auto got = trainer.step(0, 1, {&batch, 1});
  EXPECT_NEAR(got.loss, 0, 1e-14);
  EXPECT_NEAR(got.grad_norm, 0, 1e-14);
}

}  // namespace
}  // namespace trireme
