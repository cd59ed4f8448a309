#include "app/train_log.hpp"

#include <string>

#include "app/settings_warnings.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/version.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/deck/consequences.hpp"
#include "lib/keys/value.hpp"
#include "lib/launch/batch_job.hpp"
#include "lib/launch/mpi_job.hpp"
#include "lib/run/record.hpp"
#include "lib/shard/freeze.hpp"
#include "lib/train/optimizer.hpp"

namespace trireme {

// Says what becomes of averaged weights if a restart changes train.ema.
static void report_averages(const Inputs& in, double before) {
  const auto now = in.deck.train.ema;
  const bool saved = in.from->has_averages();
  if (now == 0 && saved)
    log_warning(
        "train.ema is not set, so the averaged weights in the checkpoint are dropped. To keep "
        "averaging, set train.ema = {} again",
        number_text(before));
  if (now > 0 && !saved)
    log_info("train.ema: the average begins at the weights of step {}", in.meta.step);
  if (now > 0 && saved && now != before)
    log_info("train.ema: the average continues with the decay {} instead of {}", number_text(now),
             number_text(before));
}

// Logs the keys that differ from the checkpoint's deck, and warns of what they change. A checkpoint
// without a deck was not written by a run.
static void print_differences(const Inputs& in) {
  if (in.from->meta().deck.empty()) return;
  const auto before = deck_of(*in.from);
  for (const auto& line : deck_differences(before, in.deck)) log_info("deck changed: {}", line);
  auto meta = in.from->meta();
  meta.samples = in.meta.samples;  // after a rollback, later ones than in the checkpoint
  const ContinuedRun run{before, in.deck, meta, in.training.samples_per_epoch(), in.changed_sets};
  for (const auto& consequence : consequences(run, Beginning::restart)) {
    if (consequence.affects == Affects::rounding)
      log_info("{}", consequence.text());
    else
      log_warning("{}", consequence.text());
  }
  report_averages(in, before.train.ema);
}

// Logs how the run trains the weights of model.init_from in another way than the run that wrote
// them.
static void print_differences_from(const CheckpointReader& initial, const Inputs& in) {
  if (initial.meta().deck.empty()) return;
  try {
    const auto before = deck_of(initial);
    const ContinuedRun run{before, in.deck, initial.meta(), in.training.samples_per_epoch()};
    for (const auto& consequence : consequences(run, Beginning::from_weights))
      log_info("compared with the run that trained model.init_from, {}", consequence.text());
  } catch (const Error&) {  // a deck of an older version, which this run does not need
  }
}

void log_start(const Inputs& in, const Machine& m, const std::filesystem::path& deck,
               const std::filesystem::path& run, Differences differences) {
  log_info("trireme {}{}, deck {}, run directory {}", version(),
           commit().empty() ? "" : fmt::format(" (commit {})", commit()),
           std::filesystem::absolute(deck).string(), std::filesystem::absolute(run).string());
  const auto job = launch::describe_job();
  log_info("{}{}, {}", job.empty() ? "" : job + ": ", counted(m.axes.world.size(), "rank"),
           launch::mpi_library());
  log_info("{}, {} backend, threads per rank: {}, computing in {}{}{}{}",
           parameters_text(m.trainer->model().spec(), in.deck.freeze, in.meta.step),
           m.backend->name(), m.choice.threads, name_of(m.trainer->model().compute()),
           in.deck.precision.products == ProductType::fp8 ? ", with products in fp8" : "",
           in.deck.zero.gather_type == GatherType::fp8 ? ", weights sent in fp8" : "",
           m.axes.grid.ranks() > 1 ? ", " + describe(m.axes.grid) : "");
  const auto matrices =
      matrices_text(m.trainer->model().spec(), in.deck.optimizer, in.deck.freeze, in.meta.step);
  if (!matrices.empty()) log_info("{}", matrices);
  warn_of_slow_products(m.choice, m.trainer->model().compute());
  warn_of_settings(in.deck, in.meta, &in.training);
  log_packing(in.training, "training");
  suggest_packing(in.training);
  for (const auto& v : in.validation) log_packing(v.data, v.label());
  if (in.deck.train.offload != Offload::none && m.backend->host_readable())
    log_info("model.offload has no effect: the {} backend uses host memory anyway",
             m.backend->name());
  log_detail("kind of machine (results on other kinds may differ in rounding): {}",
             in.meta.extra.machine);
  if (!in.from && in.fixed.initial) {
    print_differences_from(*in.fixed.initial, in);
    warn_of_initial_optimizer(in.deck, *in.fixed.initial);
  }
  if (!in.from) return;
  log_info("restarting from {} (step {})", in.from->directory().string(), in.meta.step);
  if (differences == Differences::new_) print_differences(in);
}

void log_earlier_rollback(const Inputs& in) {
  if (const auto row = last_rollback_to(in.rollbacks, in.meta.step))
    log_info("the run has rolled back to {} before, so it continues with sample {} instead of {}",
             in.from->directory().string(), row->next_sample(), in.from->meta().samples);
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
