// What exactness costs: `[mpiexec -n N] bench_exactness MODEL DTYPE WHAT` takes steps of a fast
// training and of another one in turns: WHAT is invariant or repeatable (run.exactness), digests
// (made after each step) or checked (as with run.replay_every, without the steps that run twice),
// on one backend, and prints the medians of both and of the ratios of neighbours, in time and in
// seconds of CPU, which other work on the machine disturbs less. Several ranks shard by data with
// zero.stage = 3, a batch of the model each; all ranks together have two threads.
#include <ctime>

#include "kernels/host/wait_policy.hpp"
#include "kernels/open/open.hpp"
#include "lib/launch/mpi_job.hpp"
#include "lib/train/trainer.hpp"
#include "tests/bench/training.hpp"

namespace {

using namespace trireme;

enum class What : std::uint8_t { fast, repeatable, invariant, digests, checked };

What what_is(std::string_view word) {
  if (word == "repeatable") return What::repeatable;
  if (word == "invariant") return What::invariant;
  if (word == "digests") return What::digests;
  require(word == "checked", "{} is not invariant, repeatable, digests or checked", word);
  return What::checked;
}

// One rank's half of a comparison.
class Course {
 public:
  Course(Backend& b, const Axes& axes, const bench::Job& job, What what)
      : what_(what),
        trainer_(b, axes, setup_of(job, axes.grid, what)),
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
    if (what_ == What::digests) trainer_.digests();
    return {bench::seconds() - begin, static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC};
  }

 private:
  static TrainerSetup setup_of(const bench::Job& job, const Grid& grid, What what) {
    TrainerSetup s;
    s.model = bench::config_of(job.model);
    s.compute = job.dtype;
    s.zero.stage = grid.data > 1 ? 3 : 0;
    s.exact_chunk = what == What::invariant ? std::min<std::int64_t>(256, job.model.T) : 0;
    s.check_memory = what == What::checked;
    return s;
  }

  What what_;
  Trainer trainer_;
  std::vector<Batch> batch_;
};

int run(const bench::Job& job, What what) {
  const launch::MpiJob mpi;
  const auto& world = mpi.world();
  BackendChoice choice{.name = "host", .threads = std::max(1, 2 / world.size())};
  if (what == What::repeatable) choice.bits = CudaBits::repeatable;
  const auto backend = open_backend(choice);
  const Workspace workspace(*backend);
  const Grid grid{1, world.size(), 1};
  ZeroConfig zero;
  zero.stage = world.size() > 1 ? 3 : 0;
  const auto axes = make_axes(world, grid, shard_ranks(zero, grid));
  Course fast(*backend, axes, job, What::fast), other(*backend, axes, job, what);
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
  trireme::host::reexec_with_wait_policy(argv);
  trireme::require(argc == 4, "usage: {} quick|124M|124M-256 f32|bf16 WHAT", argv[0]);
  return run(trireme::bench::parse(argc - 1, argv), what_is(argv[3]));
}
