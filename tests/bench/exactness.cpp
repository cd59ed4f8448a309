// What run.exactness costs: `[mpiexec -n N] bench_exactness MODEL DTYPE invariant|repeatable` takes
// steps of a fast training and of the other one in turns, on one backend, and prints the medians of
// both and of the ratios of neighbours, in time and in seconds of CPU, which other work on the
// machine disturbs less. Several ranks shard by data with zero.stage = 3, a batch of
// the model each; all ranks together have two threads.
#include <ctime>

#include "kernels/host/wait_policy.hpp"
#include "kernels/open/open.hpp"
#include "lib/launch/mpi_job.hpp"
#include "lib/train/trainer.hpp"
#include "tests/bench/training.hpp"

namespace {

using namespace trireme;

// One rank's half of a comparison.
class Course {
 public:
  Course(Backend& b, const Axes& axes, const bench::Job& job, std::int64_t exact_chunk)
      : trainer_(b, axes, setup_of(job, axes.grid, exact_chunk)),
        batch_{bench::random_batch(job.model.B, job.model.T, job.model.V, 1)} {
    trainer_.store().initialize(1, 2);
  }
  struct Seconds {
    double time = 0, cpu = 0;
  };
  Seconds step(std::int64_t s) {
    const double begin = bench::seconds();
    const auto cpu = std::clock();
    trainer_.step(s, 1e-4, batch_);
    return {bench::seconds() - begin, static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC};
  }

 private:
  static TrainerSetup setup_of(const bench::Job& job, const Grid& grid, std::int64_t exact_chunk) {
    TrainerSetup s;
    s.model = bench::config_of(job.model);
    s.compute = job.dtype;
    s.zero.stage = grid.data > 1 ? 3 : 0;
    s.exact_chunk = exact_chunk;
    return s;
  }

  Trainer trainer_;
  std::vector<Batch> batch_;
};

int run(const bench::Job& job, std::string_view exactness) {
  const launch::MpiJob mpi;
  const auto& world = mpi.world();
  const bool invariant = exactness == "invariant";
  BackendChoice choice{.name = "host", .threads = std::max(1, 2 / world.size())};
  if (!invariant) choice.bits = CudaBits::repeatable;
  const auto backend = open_backend(choice);
  const Workspace workspace(*backend);
  const Grid grid{1, world.size(), 1};
  ZeroConfig zero;
  zero.stage = world.size() > 1 ? 3 : 0;
  const auto axes = make_axes(world, grid, shard_ranks(zero, grid));
  Course fast(*backend, axes, job, 0),
      other(*backend, axes, job, invariant ? std::min<std::int64_t>(256, job.model.T) : 0);
  std::vector<double> fast_s, other_s, ratios, cpu_ratios;
  double more = 1;
  const double enough = bench::seconds() + 12;
  for (std::int64_t s = 0; more > 0; ++s) {
    // Who is first alternates: what is slow for a while meets both.
    Course::Seconds f, o;
    if (s % 2 == 0) f = fast.step(s);
    o = other.step(s);
    if (s % 2 == 1) f = fast.step(s);
    if (s >= 1) {
      fast_s.push_back(f.time);
      other_s.push_back(o.time);
      ratios.push_back(o.time / f.time);
      cpu_ratios.push_back(o.cpu / f.cpu);
    }
    more = s < 6 || (bench::seconds() < enough && s < 1000);
    world.all_reduce_max({&more, 1});
  }
  if (world.rank() == 0)
    fmt::print("fast_ms {:.3f} other_ms {:.3f} times {:.4f} of_cpu {:.4f} pairs {}\n",
               1e3 * bench::median(fast_s), 1e3 * bench::median(other_s), bench::median(ratios),
               bench::median(cpu_ratios), ratios.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  trireme::host::settle_wait_policy(argv);
  const std::string_view exactness = argc == 4 ? argv[3] : "";
  trireme::require(exactness == "invariant" || exactness == "repeatable",
                   "usage: {} quick|124M|124M-256 f32|bf16 invariant|repeatable", argv[0]);
  return run(trireme::bench::parse(argc - 1, argv), exactness);
}
