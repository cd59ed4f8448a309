// trireme train DECK [section.key=value ...]
#include <chrono>
#include <filesystem>
#include <optional>
#include <random>

#include "app/commands.hpp"
#include "app/run_support.hpp"
#include "lib/base/log.hpp"
#include "lib/base/version.hpp"
#include "lib/comm/mpi_job.hpp"
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
                                                      const std::filesystem::path& checkpoints) {
  if (restart.empty()) return std::nullopt;
  if (restart != "latest") return CheckpointReader(find_checkpoint(restart));
  const auto newest = newest_intact(checkpoints, Check::hashes);
  for (const auto& reason : newest.skipped) log_warning("skipped: {}", reason);
  if (!newest.found) {
    log_info("--restart latest: {} holds no intact checkpoint, so training starts fresh",
             checkpoints.string());
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

// What a run needs, made before anything of an earlier run is touched.
struct Prepared {
  Deck deck;
  Dataset training;
  std::optional<Dataset> validation;
  std::optional<CheckpointReader> from;
  CheckpointMeta meta;
  BackendChoice choice;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Trainer> trainer;

  bool finished() const {
    return from && meta.step >= steps_of_run(deck.train, deck.model.context, meta);
  }
};

Prepared prepare(Deck deck, const TrainArguments& a, const std::filesystem::path& run,
                 const Communicator& world) {
  const auto& m = deck.model;
  Prepared p{
      deck,
      training_data(deck.data, m.context, m.vocab, static_cast<std::uint64_t>(deck.train.seed)),
      validation_data(deck.data, m.context, m.vocab),
      checkpoint_to_restart(a.restart, run / "checkpoints"),
      {},
      {},
      {},
      {}};
  p.meta = meta_of(deck, p.training, p.from ? &*p.from : nullptr);
  if (p.finished()) return p;
  p.choice = backend_choice(deck.run, world);
  p.backend = open_backend(p.choice);
  p.trainer =
      std::make_unique<Trainer>(*p.backend, world, m, deck.optimizer,
                                usable_compute(p.choice, deck.precision.compute), p.meta.seed);
  auto& store = p.trainer->store();
  if (p.from) {
    load_state(store, *p.from, Restore::everything);
  } else if (!m.init_from.empty()) {
    CheckpointReader weights(find_checkpoint(m.init_from));
    load_state(store, weights, Restore::weights);
    log_info("weights from {}", weights.directory().string());
  } else {
    store.initialize(p.meta.seed, p.choice.threads);
  }
  return p;
}

// The run directory as this run finds it: checkpoints that it leaves behind are out of the way.
void settle(const RunDirectory& directory, const Prepared& p) {
  for (const auto& path : clean_checkpoints(directory.checkpoints()))
    log_info("removed {}, which an interrupted save left", path.string());
  for (const auto& path : set_aside_after(directory.checkpoints(), p.meta.step))
    log_warning("training goes on from step {}: a later checkpoint is now {}", p.meta.step,
                path.string());
  directory.write_deck(p.meta.deck);
}

int train_in(const RunDirectory& directory, Prepared& p, const TrainArguments& a,
             SignalWatch& signals, std::chrono::steady_clock::time_point started) {
  settle(directory, p);
  log_info("{:.2f}M parameters, {} backend with {} threads, {}",
           static_cast<double>(p.trainer->model().spec().parameter_count()) * 1e-6,
           p.backend->name(), p.choice.threads, name_of(p.trainer->model().compute()));
  if (p.from) {
    log_info("restarting from {} (step {})", p.from->directory().string(), p.meta.step);
    print_differences(*p.from, p.deck);
  }
  const std::string restored = p.from ? p.from->directory().string() : "";
  p.from.reset();
  TrainLoop loop(*p.trainer, p.training, p.validation ? &*p.validation : nullptr, directory,
                 signals, loop_settings(p.deck, a, started), std::move(p.meta), restored);
  try {
    if (loop.run() == Ending::done) {
      directory.write_outcome({"done", loop.step(), "all steps are done", loop.last_checkpoint()});
      log_info("done: {} steps", loop.step());
      return 0;
    }
  } catch (const std::exception& e) {
    try {
      directory.write_outcome({"failed", loop.step(), e.what(), loop.last_checkpoint()});
    } catch (const Error& second) {
      log_error("{}", second.what());
    }
    throw;
  }
  directory.write_outcome({"stopped", loop.step(), loop.reason(), loop.last_checkpoint()});
  std::string overrides;
  for (const auto& o : a.deck.overrides) overrides += " '" + o + "'";
  log_info("stopped after step {}: {}. To go on: trireme train {}{} --run-dir {} --restart latest",
           loop.step(), loop.reason(), a.deck.path, overrides, directory.path().string());
  return exit_stopped_early;
}

// Going on with a checkpoint of this very run, or starting one in a place that is free?
Existing intent(const TrainArguments& a, const std::filesystem::path& run) {
  if (a.overwrite) return Existing::overwrite;
  if (a.restart == "latest") return Existing::restart;
  if (a.restart.empty()) return Existing::refuse;
  std::error_code e;
  const auto from = std::filesystem::weakly_canonical(find_checkpoint(a.restart), e).parent_path();
  return from == std::filesystem::weakly_canonical(run / "checkpoints", e) ? Existing::restart
                                                                           : Existing::refuse;
}

int train_on(const Communicator& world, const TrainArguments& a) {
  const auto started = std::chrono::steady_clock::now();
  SignalWatch signals;
  auto deck = with_vocab(fit_to_ranks(load_deck(a.deck.path, a.deck.overrides), world.size()));
  require_launch(world, deck);
  const std::filesystem::path run = a.run_dir.empty() ? "runs/" + deck.name : a.run_dir;
  const auto existing = intent(a, run);
  if (existing == Existing::refuse) refuse_existing_run(run);
  auto prepared = prepare(std::move(deck), a, run, world);
  if (prepared.finished()) {
    log_info("the run is finished: {} steps are done", prepared.meta.step);
    return 0;
  }
  const RunDirectory directory(run, existing);
  log_to(directory.log());
  return train_in(directory, prepared, a, signals, started);
}

int train(const TrainArguments& a) {
  const MpiJob job;
  try {
    return train_on(job.world(), a);
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
  command->add_option(
      "--restart", a->restart,
      "go on from a checkpoint: \"latest\" of the run directory, or one by its directory");
  command->add_option("--run-dir", a->run_dir, "where the run writes (default: runs/<deck name>)");
  command->add_flag("--overwrite", a->overwrite, "replace the run that is there")
      ->excludes("--restart");
  command->add_option("--time-limit", a->time_limit,
                      "hh:mm:ss; stop before it with a checkpoint and exit code 75");
  command->callback([&chosen, a] { chosen = [a] { return train(*a); }; });
}

}  // namespace trireme
