// A step on a grid, timed: `mpiexec -n N bench_grid MODEL PIPE DATA SEQ ZERO THREADS [SCHEDULE
// CHUNKS MICROBATCHES]`, f32; rank 0 prints the median milliseconds of a step, the bytes that it
// sends in one, and how long the plan's schedule is in GFLOP. The models' batches are whole steps,
// so the same MODEL is the same work on every grid.
#include <algorithm>
#include <cstdlib>

#include "kernels/host/host.hpp"
#include "kernels/host/wait_policy.hpp"
#include "kernels/open/open.hpp"
#include "lib/launch/mpi_job.hpp"
#include "lib/plan/plan.hpp"
#include "lib/train/trainer.hpp"
#include "tests/bench/training.hpp"

namespace {

using namespace trireme;

constexpr bench::Model grid_models[] = {
    {"124M", 12, 12, 768, 64, 8, 50304},
    {"tiny", 8, 8, 64, 64, 8, 256},
    {"deep", 8, 8, 384, 64, 16, 256},
};

struct GridJob {
  bench::Model model;
  Grid grid;
  ZeroConfig zero;
  int threads;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;
  std::int64_t microbatches = 0;  // 0: as a deck's default
};

ScheduleKind schedule_named(std::string_view name) {
  const auto found = value_named<ScheduleKind>(name);
  require(found.has_value(), "there is no schedule {}", name);
  return *found;
}

GridJob parse(int argc, char** argv) {
  require(argc == 7 || argc == 10,
          "usage: {} 124M|tiny|deep PIPE DATA SEQ ZERO THREADS [SCHEDULE CHUNKS MICROBATCHES]",
          argv[0]);
  for (const auto& m : grid_models)
    if (m.name == argv[1]) {
      GridJob job{m, {std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4])}, {}, 0};
      job.zero.stage = std::atoi(argv[5]);
      job.threads = std::atoi(argv[6]);
      if (argc == 10) {
        job.schedule = schedule_named(argv[7]);
        job.chunks = std::atoi(argv[8]);
        job.microbatches = std::atoi(argv[9]);
      }
      return job;
    }
  fail("there is no model {}", argv[1]);
}

// Of the stage that works longest, with what it waits for.
double planned_flops(const GridJob& job, const TrainerSetup& setup, std::int64_t microbatch) {
  PlanInput in;
  in.setup = setup;
  in.train.batch = job.model.B;
  in.train.microbatch = microbatch;
  in.grid = job.grid;
  return 1e-9 * make_plan(in, dry_target({"host", job.threads, false})).timeline.end;
}

int run(const GridJob& job) {
  const launch::MpiJob mpi;
  const auto& m = job.model;
  Host backend(job.threads);
  const Workspace workspace(backend);
  TrainerSetup setup;
  setup.model = bench::config_of(m);
  setup.zero = job.zero;
  setup.schedule = job.schedule;
  setup.chunks = job.chunks;
  const auto axes = make_axes(mpi.world(), job.grid, shard_ranks(job.zero, job.grid));
  Trainer trainer(backend, axes, setup);
  trainer.store().initialize(1, job.threads);
  // A pipeline takes at least two microbatches a stage, as a deck's default does.
  const auto samples = m.B / job.grid.data;
  const auto microbatches =
      job.microbatches > 0
          ? job.microbatches
          : std::min<std::int64_t>(samples, job.grid.pipe > 1 ? 2 * job.grid.pipe : 1);
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
    fmt::print(
        "step_ms {:.3f} sent_MiB {:.2f} plan_GFLOP {:.4f}\n", 1e3 * bench::median(times),
        static_cast<double>(axes.traffic().all() - before) / static_cast<double>(steps) / (1 << 20),
        planned_flops(job, setup, samples / microbatches));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  trireme::host::reexec_with_wait_policy(argv);
  return run(parse(argc, argv));
}
