#include "app/train_log.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "lib/base/counted.hpp"
#include "lib/base/log.hpp"
#include "lib/base/version.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/launch/batch_job.hpp"
#include "lib/launch/mpi_job.hpp"
#include "lib/run/record.hpp"
#include "lib/run/run_length.hpp"
#include "lib/run/schedule.hpp"
#include "lib/shard/freeze.hpp"

namespace trireme {

// Returns the learning rate of the next step according to the deck.
static double rate_of(const Deck& deck, const CheckpointMeta& meta) {
  const auto steps = steps_of_run(deck.train, deck.data.context, meta);
  return learning_rate(deck.schedule, deck.optimizer.lr, meta.step, steps);
}

static void print_differences(const Inputs& in) {
  const auto before = deck_of(*in.from);
  for (const auto& line : deck_differences(before, in.deck)) log_info("deck changed: {}", line);
  const auto then = rate_of(before, in.from->meta()), now = rate_of(in.deck, in.meta);
  if (constexpr double small = 0.05; std::abs(now - then) > small * std::max(then, now))
    log_warning(
        "the learning rate jumps: in step {}, it is {:.4g} with this deck and {:.4g} with the "
        "checkpoint's deck. To avoid the jump, use optimizer.lr, [schedule] and the length of the "
        "run from the checkpoint's deck",
        in.meta.step + 1, now, then);
}

void log_start(const Inputs& in, const Machine& m, const std::filesystem::path& deck,
               const std::filesystem::path& run) {
  log_info("trireme {}{}, deck {}, run directory {}", version(),
           commit().empty() ? "" : fmt::format(" (commit {})", commit()),
           std::filesystem::absolute(deck).string(), std::filesystem::absolute(run).string());
  const auto job = launch::describe_job();
  log_info("{}{}, {}", job.empty() ? "" : job + ": ", counted(m.axes.world.size(), "rank"),
           launch::mpi_library());
  log_info("{}, {} backend, threads per rank: {}, computing in {}{}{}",
           parameters_text(m.trainer->model().spec(), in.deck.freeze, in.meta.step),
           m.backend->name(), m.choice.threads, name_of(m.trainer->model().compute()),
           in.deck.precision.products == ProductType::fp8 ? ", with products in fp8" : "",
           m.axes.grid.ranks() > 1 ? ", " + describe(m.axes.grid) : "");
  warn_of_slow_products(m.choice, m.trainer->model().compute());
  warn_of_settings(in.deck, in.total_steps, in.training.samples_per_epoch());
  log_packing(in.training);
  suggest_packing(in.training);
  for (const auto& v : in.validation) log_packing(v.data);
  if (in.deck.train.offload != Offload::none && m.backend->host_readable())
    log_info("model.offload has no effect: the {} backend uses host memory anyway",
             m.backend->name());
  log_detail("kind of machine (results on other kinds may differ in rounding): {}",
             in.meta.extra.machine);
  if (!in.from) return;
  log_info("restarting from {} (step {})", in.from->directory().string(), in.meta.step);
  print_differences(in);
}

void log_processes(const Communicator& world) {
  if (world.size() == 1) return;
  const auto processes = world.processes();
  std::string text;
  for (std::size_t r = 0; r < processes.size(); ++r)
    text += r > 0 && processes[r].host == processes[r - 1].host
                ? fmt::format(" {}", processes[r].id)
                : fmt::format("{}{} {}", r > 0 ? ", " : "", processes[r].host, processes[r].id);
  log_detail("process IDs by rank: {}", text);
}

}  // namespace trireme
