// A deck's step, timed: `mpiexec -n N bench_deck_step SECONDS DECK [KEY=VALUE ...]` makes steps of
// random tokens for about that long; rank 0 prints the milliseconds of the fastest, of the median
// and how many there were. With TRIREME_BENCH_TRACE=FILE it writes its last step as a Chrome trace.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "kernels/host/host.hpp"
#include "kernels/host/wait_policy.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/deck/deck.hpp"
#include "lib/deck/resolve.hpp"
#include "lib/launch/mpi_job.hpp"
#include "lib/launch/threads.hpp"
#include "lib/launch/ucx.hpp"
#include "lib/run/step_trace.hpp"
#include "lib/train/trainer.hpp"
#include "tests/bench/training.hpp"

namespace {

using namespace trireme;

int run(double seconds, const Deck& asked) {
  const launch::MpiJob mpi;
  const auto& world = mpi.world();
  const auto deck = resolve(asked, {.ranks = world.size()});
  require(deck.data.attention == AttentionSpan::causal && exact_chunk(deck) == 0,
          "this times steps of whole samples that are not exact");
  const auto input =
      plan_input_of(deck, deck.precision.compute, TransportKind::host, {}, DocumentWeights::absent);
  const int threads = launch::threads_of_rank(deck.run.threads, world);
  Host backend(threads);
  const Workspace workspace(backend);
  const auto axes = make_axes(world, input.grid, shard_ranks(deck.zero, input.grid));
  Trainer trainer(backend, axes, input.setup);
  trainer.store().initialize(1, threads);
  std::vector<Batch> batches;
  const auto count = deck.train.batch / (deck.train.microbatch * input.grid.data);
  for (std::int64_t m = 0; m < count; ++m)
    batches.push_back(
        trainer.share(bench::random_batch(deck.train.microbatch, deck.data.context,
                                          deck.model.vocab, static_cast<std::uint64_t>(m) + 1)));
  std::vector<double> times;
  const char* trace = std::getenv("TRIREME_BENCH_TRACE");
  const double enough = bench::seconds() + seconds;
  double more = 1;
  for (std::int64_t step = 0; more > 0; ++step) {
    const double begin = bench::seconds();
    trainer.step(step, 1e-4, batches);
    if (step >= 1) times.push_back(bench::seconds() - begin);
    more = step < 3 || (bench::seconds() < enough && step < 1000);
    world.all_reduce_max({&more, 1});
  }
  if (world.rank() == 0)
    fmt::print("least_ms {:.3f} median_ms {:.3f} steps {}\n", 1e3 * std::ranges::min(times),
               1e3 * bench::median(times), times.size());
  std::fflush(stdout);  // MPI may not end
  if (!trace) return 0;
  Trace::start();
  const auto begin = Trace::nanoseconds();
  trainer.step(1000, 1e-4, batches);
  const auto events =
      chrome_events(world.rank(), fmt::format("rank {}", world.rank()), Trace::stop(), begin);
  std::string all;
  for (const auto& e : world.all_gather(events)) all += (all.empty() ? "" : ",\n") + e;
  if (world.rank() == 0)
    replace_atomically(trace, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + all + "\n]}\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  trireme::launch::reexec_with_ucx_settings(argv);
  trireme::host::reexec_with_wait_policy(argv);
  try {
    require(argc >= 3, "usage: {} SECONDS DECK [KEY=VALUE ...]", argv[0]);
    const std::vector<std::string> overrides(argv + 3, argv + argc);
    return run(std::atof(argv[1]), load_deck(argv[2], overrides));
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
