// Replicas on ranks with different numbers of threads keep equal weights.
#include <gtest/gtest.h>

#include <iterator>
#include <string>

#include "kernels/open/open.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"

namespace trireme {

using test::ParityCase;

namespace {

ParityCase case_of_replicas() {
  ParityCase p;
  p.grid = {1, test::world().size(), 1};
  p.size = test::world().size() * 4;
  p.microbatches = 1;
  p.layers = 1;
  p.backend = "host";
  p.compute = p.reduce = DType::f32;
  p.optimizer = OptimizerKind::muon;
  p.steps = 2;
  return p;
}

// In x x' of an MLP matrix, few elements are long sums. oneDNN divides these sums among threads if
// the sum order allows it.
TrainerSetup setup_of_long_sums(const ParityCase& p) {
  auto s = test::parity_setup(p);
  s.model.ffn_width = 8192;
  return s;
}

// The first rank has one thread. The others have eight, which may be more than there are cores.
BackendChoice backend_here(const ParityCase& p) {
  auto choice = test::backend_of(p, false);
  if (test::world().rank() > 0) choice.threads = 8;
  return choice;
}

}  // namespace

TEST(Threads, OfReplicasDoNotChangeTheStepsOfMatrices) {
  const auto p = case_of_replicas();
  const auto backend = open_backend(backend_here(p));
  const Workspace workspace(*backend);
  Trainer trainer(*backend, test::parity_axes(p), setup_of_long_sums(p));
  auto& store = trainer.store();
  store.initialize(3, 1);
  for (int s = 0; s < p.steps; ++s)
    EXPECT_EQ(trainer.step(s, test::learning_rate(p), test::parity_step(p, trainer, s)).outcome,
              StepOutcome::updated);
  for (std::size_t i = 0; i < store.spec().params.size(); ++i) {
    const auto& param = store.spec().params[i];
    const auto weights = test::weights_here(store, ParamId::at(i));
    ASSERT_EQ(std::ssize(weights), param.shape.count()) << param.name;
    const std::string mine(reinterpret_cast<const char*>(weights.data()),
                           weights.size() * sizeof(double));
    auto first = mine;
    test::world().broadcast(first);
    EXPECT_TRUE(mine == first) << param.name;
  }
}

}  // namespace trireme
