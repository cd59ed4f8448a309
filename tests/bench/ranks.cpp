// What a job costs as it has more ranks: `mpiexec -n N bench_ranks DATA SHARD`, a tiny model with
// zero.stage = 3 on 2 stages and 2 sequence ranks, a sample and two microbatches for each data
// rank. Rank 0 prints milliseconds of the communicators' splits, of all else until the first step,
// the median of a step, the messages of a rank in one, and the most memory of any process in MiB.
#include <sys/resource.h>

#include <cstdlib>

#include "kernels/host/host.hpp"
#include "kernels/host/wait_policy.hpp"
#include "lib/launch/mpi_job.hpp"
#include "lib/plan/sent_messages.hpp"
#include "lib/train/trainer.hpp"
#include "tests/bench/training.hpp"

namespace {

using namespace trireme;

constexpr bench::Model model{"tiny", 8, 4, 32, 16, 2, 64};

double peak_mib() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_maxrss) / 1024;
}

double most(const Communicator& world, double x) {
  world.all_reduce_max({&x, 1});
  return x;
}

int run(int data, int shard) {
  const launch::MpiJob mpi;
  const auto& world = mpi.world();
  const Grid grid{2, data, 2};
  double began = bench::seconds();
  const auto axes = make_axes(world, grid, shard > 0 ? shard : grid.places());
  const double splits = most(world, bench::seconds() - began);
  began = bench::seconds();
  world.take_roll();
  Host backend(1);
  const Workspace workspace(backend);
  TrainerSetup setup;
  setup.model = bench::config_of(model);
  setup.zero.stage = 3;
  setup.zero.shard = shard;
  Trainer trainer(backend, axes, setup);
  trainer.store().initialize(1, 1);
  const double opening = most(world, bench::seconds() - began);
  const std::vector<Batch> batches(2, trainer.share(bench::random_batch(1, model.T, model.V, 1)));
  std::vector<double> times;
  const SentMessages sent(axes, axes.gather.size(), {world.size()});
  constexpr int steps = 5;
  for (int s = 0; s < steps; ++s) {
    began = bench::seconds();
    trainer.step(s, 1e-4, batches);
    times.push_back(most(world, bench::seconds() - began));
  }
  const double mib = most(world, peak_mib());
  if (world.rank() == 0)
    fmt::print("splits_ms {:.1f} opening_ms {:.1f} step_ms {:.1f} messages {} peak_MiB {:.1f}\n",
               1e3 * splits, 1e3 * opening, 1e3 * bench::median(times), sent.count() / steps, mib);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace trireme;
  host::reexec_with_wait_policy(argv);
  require(argc == 3, "usage: {} DATA SHARD", argv[0]);
  return run(std::atoi(argv[1]), std::atoi(argv[2]));
}
