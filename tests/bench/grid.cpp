// A step on a grid, timed: `mpiexec -n N bench_grid MODEL PIPE DATA SEQ ZERO THREADS`, f32; rank 0
// prints the median milliseconds of a step, the bytes that it sends in one, and how long it waits.
// The models' batches are whole steps, so the same MODEL is the same work on every grid.
#include <cstdlib>

#include "kernels/host/host.hpp"
#include "kernels/host/wait_policy.hpp"
#include "lib/launch/mpi_job.hpp"
#include "lib/train/trainer.hpp"
#include "tests/bench/training.hpp"

namespace {

using namespace trireme;

constexpr bench::Model grid_models[] = {
    {"124M", 12, 12, 768, 64, 8, 50304},
    {"tiny", 8, 8, 64, 64, 8, 256},
};

struct GridJob {
  bench::Model model;
  Grid grid;
  ZeroConfig zero;
  int threads;
};

GridJob parse(int argc, char** argv) {
  require(argc == 7, "usage: {} 124M|tiny PIPE DATA SEQ ZERO THREADS", argv[0]);
  for (const auto& m : grid_models)
    if (m.name == argv[1]) {
      GridJob job{m, {std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4])}, {}, 0};
      job.zero.stage = std::atoi(argv[5]);
      job.threads = std::atoi(argv[6]);
      return job;
    }
  fail("there is no model {}", argv[1]);
}

int run(const GridJob& job) {
  const launch::MpiJob mpi;
  const auto& m = job.model;
  Host backend(job.threads);
  const Workspace workspace(backend);
  TrainerSetup setup;
  setup.model = bench::config_of(m);
  setup.zero = job.zero;
  const auto axes = make_axes(mpi.world(), job.grid, shard_ranks(job.zero, job.grid));
  Trainer trainer(backend, axes, setup);
  trainer.store().initialize(1, job.threads);
  // A pipeline takes at least two microbatches a stage, as a deck's default does.
  const auto samples = m.B / job.grid.data;
  const auto microbatches =
      std::min<std::int64_t>(samples, job.grid.pipe > 1 ? 2 * job.grid.pipe : 1);
  const std::vector<Batch> batches(
      static_cast<std::size_t>(microbatches),
      trainer.share(bench::random_batch(samples / microbatches, m.T, m.V, 1)));
  std::vector<double> times;
  const auto before = axes.traffic().all();
  std::int64_t steps = 0;
  double more = 1;
  const double enough = bench::seconds() + 6;
  for (; more > 0; ++steps) {
    const double begin = bench::seconds();
    trainer.step(steps, 1e-4, batches);
    if (steps >= 2) times.push_back(bench::seconds() - begin);
    more = steps < 4 || (bench::seconds() < enough && steps < 500);
    mpi.world().all_reduce_max({&more, 1});
  }
  if (mpi.world().rank() == 0)
    fmt::print("step_ms {:.3f} sent_MiB {:.2f}\n", 1e3 * bench::median(times),
               static_cast<double>(axes.traffic().all() - before) / static_cast<double>(steps) /
                   (1 << 20));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  trireme::host::settle_wait_policy(argv);
  return run(parse(argc, argv));
}
