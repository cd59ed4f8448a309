#include "app/train_log.hpp"

#include <string>

#include "lib/base/counted.hpp"
#include "lib/base/log.hpp"
#include "lib/base/version.hpp"
#include "lib/launch/batch_job.hpp"
#include "lib/launch/mpi_job.hpp"
#include "lib/run/record.hpp"
#include "lib/shard/freeze.hpp"

namespace trireme {

static void print_differences(const CheckpointReader& from, const Deck& deck) {
  const auto before = parse_deck(from.meta().deck, from.directory().string());
  for (const auto& line : deck_differences(before, deck)) log_info("deck changed: {}", line);
}

void log_start(const Inputs& in, const Machine& m, const std::filesystem::path& deck,
               const std::filesystem::path& run) {
  log_info("trireme {}{}, deck {}, run directory {}", version(),
           commit().empty() ? "" : fmt::format(" (commit {})", commit()),
           std::filesystem::absolute(deck).string(), std::filesystem::absolute(run).string());
  const auto job = launch::describe_job();
  log_info("{}{}, {}", job.empty() ? "" : job + ": ", counted(m.axes.world.size(), "rank"),
           launch::mpi_library());
  log_info("{}, {} backend with {} threads, {}{}",
           parameters_text(m.trainer->model().spec(), in.deck.freeze, in.meta.step),
           m.backend->name(), m.choice.threads, name_of(m.trainer->model().compute()),
           m.axes.grid.ranks() > 1 ? ", " + describe(m.axes.grid) : "");
  warn_of_slow_products(m.choice, m.trainer->model().compute());
  warn_of_length(in.deck, in.total_steps, in.training.samples_per_epoch());
  log_detail("bits are those of {}", in.meta.extra.at(machine_key));
  if (!in.from) return;
  log_info("restarting from {} (step {})", in.from->directory().string(), in.meta.step);
  print_differences(*in.from, in.deck);
}

void log_processes(const Communicator& world) {
  if (world.size() == 1) return;
  const auto processes = world.processes();
  std::string text;
  for (std::size_t r = 0; r < processes.size(); ++r)
    text += r > 0 && processes[r].host == processes[r - 1].host
                ? fmt::format(" {}", processes[r].id)
                : fmt::format("{}{} {}", r > 0 ? ", " : "", processes[r].host, processes[r].id);
  log_detail("processes by rank: {}", text);
}

}  // namespace trireme
