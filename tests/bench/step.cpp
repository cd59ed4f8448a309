// One training step of Trireme as users run it, timed: `bench_step MODEL DTYPE` prints the median
// milliseconds of a step and, against the arena's account, the memory that it took.
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "kernels/host/host.hpp"
#include "kernels/host/wait_policy.hpp"
#include "lib/train/trainer.hpp"
#include "tests/bench/training.hpp"

namespace {

using namespace trireme;

// Peak resident bytes of this process (VmHWM), or what is resident now (VmRSS).
std::int64_t resident(const char* field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field)) return std::stoll(line.substr(line.find(':') + 1)) * 1024;
  return 0;
}

int run(const bench::Job& job) {
  const auto& m = job.model;
  Host backend(static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  const auto before = resident("VmRSS");
  const Workspace workspace(backend);
  TrainerSetup setup;
  setup.model = bench::config_of(m);
  setup.compute = job.dtype;
  Trainer trainer(backend, {}, setup);
  trainer.store().initialize(1, 2);
  const std::vector<Batch> batch{bench::random_batch(m.B, m.T, m.V, 1)};
  std::vector<double> times;
  const double enough = bench::seconds() + 3;
  for (std::int64_t s = 0; s < 5 || (bench::seconds() < enough && s < 2000); ++s) {
    const double begin = bench::seconds();
    trainer.step(s, 1e-4, batch);
    if (s >= 2) times.push_back(bench::seconds() - begin);
  }
  const double reserved = static_cast<double>(backend.account().reserved);
  fmt::print("step_ms {:.3f} reserved_MiB {:.1f} peak_over_reserved {:.4f}\n",
             1e3 * bench::median(times), reserved / (1 << 20),
             static_cast<double>(resident("VmHWM") - before) / reserved);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  trireme::host::reexec_with_wait_policy(argv);
  return run(trireme::bench::parse(argc, argv));
}
