// What an update of Muon costs in GPT-2 124M, compared with its matrix products alone: `mpiexec -n
// N bench_matrices f32|bf16 THREADS`. Ranks share the weights (zero.stage = 3) and, therefore, the
// steps. Prints the median seconds of an update, of the products of the rank that needs the longest
// for its own, and their ratio. Both take turns.
#include <cstdlib>
#include <cstring>

#include "kernels/host/host.hpp"
#include "kernels/host/wait_policy.hpp"
#include "lib/launch/mpi_job.hpp"
#include "lib/matrix/matrix_step.hpp"
#include "lib/shard/matrix_plan.hpp"
#include "lib/train/trainer.hpp"
#include "tests/bench/training.hpp"

namespace {

using namespace trireme;

constexpr bench::Model model{"124M", 12, 12, 768, 64, 1, 50304};

double most(const Communicator& world, double x) {
  world.all_reduce_max({&x, 1});
  return x;
}

// Returns the matrices that this rank owns.
std::vector<Matrix> own_matrices(const Store& store, const Communicator& ranks) {
  std::vector<std::size_t> segments;
  for (std::size_t i = 0; i < store.layout().segments.size(); ++i)
    if (store.layout().segments[i].matrices().count() > 0) segments.push_back(i);
  const auto plan = plan_matrices(
      store.spec(), store.layout(), segments, HeadMatrices::together, ranks.size(),
      [](const Matrix& m) { return step_flops(matrix_rule::Muon{}, m.rows, m.columns); });
  std::vector<Matrix> own;
  for (const auto& round : plan.rounds)
    if (const auto* const m = round.of(ranks.rank())) own.push_back(m->matrix);
  return own;
}

// The products of five steps of each matrix, and nothing else.
void multiply(Backend& b, std::span<const Matrix> matrices, DType type) {
  for (const auto& m : matrices) {
    const auto small = std::min(m.rows, m.columns), large = std::max(m.rows, m.columns);
    const auto make = [&](const Shape& s) {
      return Tensor::empty(b, s, type, MemoryKind::transient);
    };
    const Tensor x = make({small, large}), next = make({small, large}), a = make({small, small}),
                 c = make({small, small});
    for (const auto* t : {&x, &next, &a, &c})
      b.put(Queue::compute, kernel::Fill{.dst = t->view(), .value = 1e-3});
    const auto put = [&](const Tensor& to, ConstView left, ConstView right) {
      b.put(Queue::compute, kernel::Matmul{.c_MN = to.view(), .a_MK = left, .b_KN = right});
    };
    for (int step = 0; step < 5; ++step) {
      put(a, x.view(), x.view().transposed());
      put(c, a.view(), a.view());
      put(next, c.view(), x.view());
    }
  }
}

int run(DType type, int threads) {
  const launch::MpiJob mpi;
  const auto& world = mpi.world();
  const Grid grid{1, world.size(), 1};
  Host backend(threads);
  const Workspace workspace(backend);
  TrainerSetup setup;
  setup.model = bench::config_of(model);
  setup.zero.stage = 3;
  setup.compute = type;
  setup.optimizer.name = OptimizerKind::muon;
  Trainer trainer(backend, make_axes(world, grid, grid.places()), setup);
  auto& store = trainer.store();
  store.initialize(1, threads);
  trainer.step(0, 1e-4,
               std::vector<Batch>{trainer.share(bench::random_batch(1, model.T, model.V, 1))});
  const auto own = own_matrices(store, world);
  std::vector<double> updates, products;
  for (int round = 0; round < 5; ++round) {
    double began = bench::seconds();
    store.update({.lr = 1e-4});
    updates.push_back(most(world, bench::seconds() - began));
    began = bench::seconds();
    multiply(backend, own, type);
    products.push_back(most(world, bench::seconds() - began));
  }
  const auto update = bench::median(updates), floor = bench::median(products);
  if (world.rank() == 0)
    fmt::print("update_s {:.3f} products_s {:.3f} ratio {:.3f}\n", update, floor, update / floor);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace trireme;
  host::reexec_with_wait_policy(argv);
  require(argc == 3, "usage: {} f32|bf16 THREADS", argv[0]);
  return run(std::strcmp(argv[1], "bf16") == 0 ? DType::bf16 : DType::f32, std::atoi(argv[2]));
}
