// trireme train DECK [section.key=value ...]
#include <chrono>
#include <filesystem>
#include <optional>
#include <random>

#include "app/commands.hpp"
#include "app/run_support.hpp"
#include "lib/base/log.hpp"
#include "lib/base/version.hpp"
#include "lib/data/dataset.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/train/loop.hpp"
#include "lib/train/state.hpp"

namespace trireme {

namespace {

constexpr int exit_stopped_early = 75;  // EX_TEMPFAIL: requeue me

struct TrainArguments {
  DeckArguments deck;
  std::string restart, run_dir, time_limit;
  bool overwrite = false;
};

// Tells files of different runs apart.
std::string new_run_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

void require_launch(const Communicator& world, const Deck& deck) {
  const int launched = launched_ranks();
  require(launched == 0 || launched == world.size(),
          "the launcher started {} ranks, but MPI sees a world of {}: they would all write one run "
          "directory. Use the launcher of the MPI that trireme was built with (srun --mpi=pmi2, or "
          "its mpiexec)",
          launched, world.size());
  const auto& p = deck.parallel;
  require(p.pipe * p.data * p.seq == world.size(),
          "the deck's grid is pipe {} x data {} x seq {}, but {} ranks were started", p.pipe,
          p.data, p.seq, world.size());
}

// Where training goes on; nothing: from the start.
std::optional<CheckpointReader> checkpoint_to_restart(const std::string& restart,
                                                      const RunDirectory& directory) {
  if (restart.empty()) return std::nullopt;
  if (restart != "latest") return CheckpointReader(restart);
  const auto newest = newest_intact(directory.checkpoints(), Check::hashes);
  for (const auto& reason : newest.skipped) log_warning("skipped: {}", reason);
  if (!newest.found) {
    log_info("--restart latest: {} holds no intact checkpoint, so training starts fresh",
             directory.checkpoints().string());
    return std::nullopt;
  }
  return CheckpointReader(newest.found->directory);
}

CheckpointMeta meta_of(const Deck& deck, const Dataset& data, const CheckpointReader* from) {
  CheckpointMeta meta;
  if (from) meta = from->meta();
  const auto tokenizer = data.tokenizer();
  meta.seed = static_cast<std::uint64_t>(deck.train.seed);
  meta.deck = dump_deck(deck);
  meta.version = version();
  if (!from) meta.run = new_run_id();
  meta.pipe = static_cast<int>(deck.parallel.pipe);
  meta.data = static_cast<int>(deck.parallel.data);
  meta.seq = static_cast<int>(deck.parallel.seq);
  meta.tokenizer_kind = name_of(tokenizer.kind);
  meta.tokenizer = tokenizer.bytes;
  meta.vocab = deck.model.vocab;
  return meta;
}

void print_differences(const CheckpointReader& from, const Deck& deck) {
  const auto before = parse_deck(from.meta().deck, from.directory().string());
  for (const auto& line : deck_differences(before, deck)) log_info("deck changed: {}", line);
}

LoopSettings loop_settings(const Deck& d, const TrainArguments& a,
                           std::chrono::steady_clock::time_point started) {
  LoopSettings s{d.train,      d.optimizer,     d.schedule,       d.evaluate,
                 d.checkpoint, d.run.log_every, d.run.time_limit, started};
  if (!a.time_limit.empty()) s.time_limit = parse_duration(a.time_limit);
  return s;
}

// Everything after the launch is known to be sound.
int train_in(const RunDirectory& directory, const Deck& deck, const TrainArguments& a,
             const Communicator& world, std::chrono::steady_clock::time_point started) {
  // 1. data
  const auto training = training_data(deck.data, deck.model.context, deck.model.vocab,
                                      static_cast<std::uint64_t>(deck.train.seed));
  const auto validation = validation_data(deck.data, deck.model.context, deck.model.vocab);

  // 2. where to go on
  auto from = checkpoint_to_restart(a.restart, directory);
  auto meta = meta_of(deck, training, from ? &*from : nullptr);
  directory.write_deck(meta.deck);
  if (from) {
    log_info("restarting from {} (step {})", from->directory().string(), meta.step);
    print_differences(*from, deck);
    if (meta.step >= total_steps(deck.train, deck.model.context)) {
      log_info("the run is finished: {} steps are done", meta.step);
      return 0;
    }
  }

  // 3. machine and model
  const auto choice = backend_choice(deck.run, world);
  const auto backend = open_backend(choice);
  const auto compute = usable_compute(choice, deck.precision.compute);
  Trainer trainer(*backend, world, deck.model, deck.optimizer, compute, meta.seed);
  log_info("{:.2f}M parameters, {} backend with {} threads, {}",
           static_cast<double>(trainer.model().spec().parameter_count()) * 1e-6, backend->name(),
           choice.threads, name_of(compute));
  if (from) {
    load_state(trainer.store(), *from, Restore::everything);
  } else if (!deck.model.init_from.empty()) {
    CheckpointReader weights(find_checkpoint(deck.model.init_from));
    load_state(trainer.store(), weights, Restore::weights);
    log_info("weights from {}", weights.directory().string());
  } else {
    trainer.store().initialize(meta.seed, choice.threads);
  }
  const bool restored = from.has_value();
  from.reset();

  // 4. the run
  TrainLoop loop(trainer, training, validation ? &*validation : nullptr, directory,
                 loop_settings(deck, a, started), std::move(meta), restored);
  directory.write_outcome({"running", loop.step(), "", ""});
  const auto ending = loop.run();

  // 5. the outcome
  if (ending == Ending::done) {
    directory.write_outcome({"done", loop.step(), "all steps are done", loop.last_checkpoint()});
    log_info("done: {} steps", loop.step());
    return 0;
  }
  directory.write_outcome({"stopped", loop.step(), loop.reason(), loop.last_checkpoint()});
  std::string overrides;
  for (const auto& o : a.deck.overrides) overrides += " '" + o + "'";
  log_info("stopped after step {}: {}. To go on: trireme train {}{} --run-dir {} --restart latest",
           loop.step(), loop.reason(), a.deck.path, overrides, directory.path().string());
  return exit_stopped_early;
}

int train(const TrainArguments& a) {
  const auto started = std::chrono::steady_clock::now();
  const MpiJob job;
  try {
    const auto deck =
        with_vocab(fit_to_ranks(load_deck(a.deck.path, a.deck.overrides), job.world().size()));
    require_launch(job.world(), deck);
    const RunDirectory directory(a.run_dir.empty() ? "runs/" + deck.name : a.run_dir,
                                 a.overwrite          ? Existing::overwrite
                                 : !a.restart.empty() ? Existing::restart
                                                      : Existing::refuse);
    log_to(directory.log());
    for (const auto& p : clean_checkpoints(directory.checkpoints()))
      log_info("removed {}, which an interrupted save left", p.string());
    try {
      return train_in(directory, deck, a, job.world(), started);
    } catch (const std::exception& e) {
      const auto last = directory.read_outcome();
      directory.write_outcome(
          {"failed", last ? last->step : 0, e.what(), last ? last->last_good_checkpoint : ""});
      throw;
    }
  } catch (const std::exception& e) {
    if (job.world().size() == 1) throw;
    log_error("rank {}: {}", job.world().rank(), e.what());
    job.abort(1);
  }
}

}  // namespace

void add_train(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand("train", "train the model of a deck");
  auto a = std::make_shared<TrainArguments>();
  add_deck_arguments(*command, a->deck);
  command->add_option("--restart", a->restart,
                      "go on from a checkpoint: its directory, or \"latest\" of the run directory");
  command->add_option("--run-dir", a->run_dir, "where the run writes (default: runs/<deck name>)");
  command->add_flag("--overwrite", a->overwrite, "empty the run directory first");
  command->add_option("--time-limit", a->time_limit,
                      "hh:mm:ss; stop before it with a checkpoint and exit code 75");
  command->callback([&chosen, a] { chosen = [a] { return train(*a); }; });
}

}  // namespace trireme
