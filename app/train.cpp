// The `trireme train DECK [section.key=value ...]` command.

#include <chrono>
#include <filesystem>
#include <optional>

#include "app/commands.hpp"
#include "app/launch.hpp"
#include "app/prepare.hpp"
#include "app/restart.hpp"
#include "app/run_end.hpp"
#include "app/run_inputs.hpp"
#include "app/run_start.hpp"
#include "app/train_log.hpp"
#include "app/train_start.hpp"
#include "lib/base/log.hpp"
#include "lib/base/random_id.hpp"
#include "lib/comm/agree.hpp"
#include "lib/deck/resolve.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/keys/quantity.hpp"
#include "lib/predict/machine_file.hpp"
#include "lib/run/generation.hpp"
#include "lib/run/loop.hpp"
#include "lib/run/run_length.hpp"
#include "lib/train/copy_space.hpp"

namespace trireme {

namespace {

std::string text_of(const TrainArguments& a) {
  return fmt::format("{} --run-dir '{}' --time-limit '{}'", start_of(a).command, a.run_dir,
                     a.time_limit);
}

// Returns the peak FLOP/s of one rank from the deck or its machine file. Returns 0 if it is
// unknown.
double peak_flops(const Deck& d) {
  if (d.run.peak_tflops > 0 || d.run.machine.empty()) return 1e12 * d.run.peak_tflops;
  const auto machine = load_machine(d.run.machine);
  const auto peak = peak_of(machine, d.precision.compute, d.precision.tf32);
  if (!peak)
    log_warning("{} gives no peak FLOP/s for {}: the column mfu in history.csv stays empty",
                d.run.machine, name_of(d.precision.compute));
  if (d.run.backend != "auto" && d.run.backend != machine.backend)
    log_warning(
        "run.backend = \"{}\", but {} describes a machine for \"{}\": mfu uses the peak of that "
        "machine",
        d.run.backend, d.run.machine, machine.backend);
  return peak.value_or(0);
}

LoopSettings loop_settings(const Deck& d, double time_limit, double peak,
                           const std::filesystem::path& run,
                           std::chrono::steady_clock::time_point part_started,
                           std::chrono::steady_clock::time_point process_started) {
  LoopSettings s{d.train, d.optimizer, d.schedule, d.evaluate,   ranking_of(d),  d.checkpoint,
                 d.run,   peak,        run,        part_started, process_started};
  s.run.time_limit = time_limit;
  return s;
}

// Returns the names of the validation sets whose evaluation was due at the last step of the last
// process, which stopped or crashed before it. Collective.
std::vector<std::string> missing_evaluations(const Communicator& world, const Inputs& in,
                                             const RunDirectory* directory) {
  const auto sets = names_of_sets(in.validation);
  std::string missing;  // one character for each set
  at_root(world, [&] {
    if (!directory || !in.from ||
        (in.meta.extra.ends_decay == 0 &&
         !evaluation_is_due(in.deck.evaluate, in.meta.step, in.total_steps)))
      return;
    for (const auto& name : sets)
      missing += has_row(directory->evaluation(name), evaluation_columns, in.meta.step) ? ' ' : 'm';
  });
  world.broadcast(missing);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < missing.size(); ++i)
    if (missing[i] == 'm') names.push_back(sets[i]);
  return names;
}

// Returns the tokenizer for evaluate.sample_prompt and the generated text. Returns null if the deck
// has no sample prompt.
std::unique_ptr<Tokenizer> tokenizer_of_samples(const Communicator& world, const Inputs& in) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (in.deck.evaluate.sample_prompt.empty()) return tokenizer;
  together(world, [&] {
    const auto spec = tokenizer_of(in.meta);
    require(spec.kind != TokenizerKind::none,
            "evaluate.sample_prompt needs a tokenizer, but neither the token files of data.path "
            "nor the initial model contain one. Remove evaluate.sample_prompt, or create the token "
            "files with a tokenizer");
    tokenizer = make_tokenizer(spec, in.deck.data.path[0]);
    try {
      require_ids(prompt_ids(*tokenizer, in.deck.evaluate.sample_prompt), in.deck.model.vocab);
    } catch (const Error& e) {
      fail("evaluate.sample_prompt: {}", e.what());
    }
  });
  return tokenizer;
}

double time_limit_of(const Communicator& world, const TrainArguments& a, const Deck& deck) {
  double seconds = deck.run.time_limit;
  if (a.time_limit.empty()) return seconds;
  together(world, [&] {
    try {
      seconds = parse_duration(a.time_limit);
    } catch (const Error& e) {
      fail("--time-limit: {}", e.what());
    }
  });
  return seconds;
}

// The end of a run, or of its part before a rollback.
struct TrainEnd {
  int code = 0;
  std::optional<RolledBack> rolled_back{};
};

TrainEnd train_on(const Communicator& world, SignalWatch& signals, const TrainArguments& a,
                  std::chrono::steady_clock::time_point process_started,
                  const std::optional<RolledBack>& rolled_back) {
  // After a rollback, the loop obeys signals, because files have changed.
  const auto stop_early = [&] {
    if (!rolled_back) stop_if_asked(world, signals.stop());
  };
  // 1. Read the deck, and find where the run begins.
  const auto part_started = rolled_back ? std::chrono::steady_clock::now() : process_started;
  Timesheet::start(std::chrono::steady_clock::now());
  check_launch(world, text_of(a));
  const auto deck = rolled_back ? rolled_back->deck : read_deck(world, a.deck);
  const auto time_limit = time_limit_of(world, a, deck);
  world.configure({.hang_timeout = deck.run.hang_timeout, .check_labels = deck.run.debug});
  auto start = find_start(world, signals, a, deck, rolled_back);

  // 2. Open all inputs.
  const bool other = !start.from.empty() && !is_checkpoint_of(start.from, start.run);
  auto in = open_inputs(world, deck, start.from, other ? run_of_checkpoint(start.from) : start.run);
  if (!rolled_back && world.rank() == 0) log_earlier_rollback(in);
  if (other) in.rollbacks.clear();  // those of the other run
  if (start.mode.existing == Existing::overwrite)
    at_root(world, Pace::slow,
            [&] { require_inputs_survive_overwrite(a.deck.path, in.deck, start.run); });
  together(world, [&] { require_teacher_of_another_run(in.deck, start.run); });
  compare_models(world, in, a.other_model);
  together(world, [&] { require_countable(in.deck.train, in.deck.data.context, in.meta); });
  const bool goes_on = start.directory && start.mode.existing == Existing::restart && !other;
  const auto* const same_run = goes_on ? &*start.directory : nullptr;
  if (in.from && world.rank() == 0 && !same_run) in.meta.run = random_id();
  world.broadcast(in.meta.run);
  auto missing = missing_evaluations(world, in, same_run);
  if (in.finished() && missing.empty()) return {end_finished(same_run, in, start.run, start.job)};
  const auto tokenizer = tokenizer_of_samples(world, in);
  double peak = 0;
  together(world, [&] { peak = peak_flops(in.deck); });
  stop_early();

  // 3. Open the machine.
  auto machine = open_machine(world, in);
  if (in.deck.checkpoint.memory_every > 0)
    require_space_for_copies(machine.trainer->store(), machine.axes, start.run, in.meta.run);
  stop_early();

  // 4. Train.
  RunRecord record;
  const auto first = in.meta.step;
  const bool known = rolled_back && first >= rolled_back->logged_step;
  const auto origin = !in.from ? Origin::fresh : same_run ? Origin::this_run : Origin::another_run;
  const auto locked = begin_run(world, start, signals, a.deck.path, in, machine, origin,
                                known ? Differences::known : Differences::new_, record);
  auto skips = skip_rules(in);
  drop_tables(in.meta);
  log_processes(world);
  TrainLoop loop({*machine.trainer, in.training, in.validation, record, signals, tokenizer.get()},
                 loop_settings(in.deck, time_limit, peak, start.run, part_started, process_started),
                 {std::move(in.meta), start.from, std::move(missing), std::move(skips),
                  std::ssize(in.rollbacks), rolled_back.has_value()});
  in.from.reset();
  const auto code = train_in(locked, in.deck, machine, loop, record, a);
  if (!loop.rollback()) return {code};
  const auto logged = rolled_back ? std::min(first, rolled_back->logged_step) : first;
  return {code, RolledBack{*loop.rollback(), deck, start.directory, logged}};
}

int train(const TrainArguments& a) {
  // Must outlive MPI, because a repeated signal while MPI ends would turn into a failure. Must be
  // created after MPI, because MPICH also has a handler for SIGUSR1, from which a job of one rank
  // does not return.
  std::optional<SignalWatch> signals;
  return with_mpi(hang_timeout_before_deck(a.deck.overrides), [&](const Communicator& world) {
    signals.emplace();
    const auto process_started = std::chrono::steady_clock::now();
    std::optional<RolledBack> rolled_back;
    try {
      while (true) {
        auto end = train_on(world, *signals, a, process_started, rolled_back);
        if (!end.rolled_back) return end.code;
        rolled_back = std::move(end.rolled_back);
      }
    } catch (const StoppedEarly& e) {
      if (world.rank() == 0) log_warning("{}", e.what());
      return exit_stopped_early;
    } catch (const SharedError& e) {
      if (rolled_back && rolled_back->directory) record_failed_rollback(*rolled_back->directory, e);
      throw;
    }
  });
}

}  // namespace

int end_train(const std::function<int()>& print) {
  return on_all_ranks("not to train",
                      [&](const Communicator& world) { return world.rank() == 0 ? print() : 0; });
}

void add_train(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand("train", "Train the model that a deck describes");
  auto a = std::make_shared<TrainArguments>();
  add_deck_arguments(*command, a->deck);
  command
      ->add_option("--restart", a->restart,
                   "Resume from a checkpoint: latest (the newest intact one in the run "
                   "directory), or the path of a checkpoint or run directory")
      ->transform(with_environment());
  command
      ->add_flag("--or-start", a->or_start,
                 "With --restart latest: start a new run if the run directory has none")
      ->needs("--restart");
  command
      ->add_flag_callback(
          "--allow-other-model", [a] { a->other_model = OtherModel::allowed; },
          "With --restart: continue even if [model] has other values than the "
          "checkpoint and they change what the model computes")
      ->needs("--restart");
  command
      ->add_option("--run-dir", a->run_dir,
                   "Directory for the log, metrics and checkpoints (default: runs/<deck name>)")
      ->transform(with_environment());
  command
      ->add_flag("--overwrite", a->overwrite,
                 "Delete the run in the run directory and start a new one")
      ->excludes("--restart");
  command
      ->add_option(
          "--time-limit", a->time_limit,
          "Wall-clock limit, as hh:mm:ss, D-hh:mm:ss or a number of seconds (sbatch reads a number "
          "as minutes); before it is reached, save a checkpoint and exit with code 75 (default: "
          "run.time_limit)")
      ->transform(with_environment());
  command
      ->add_option_function<std::string>(
          "--progress",
          [](const std::string& shown) {
            if (shown != "auto") log_as_to_terminal(shown == "yes");
          },
          "Show a progress line on standard error: yes, no or auto (only on a "
          "terminal); with mpiexec or srun, auto shows none, so pass yes")
      ->default_str("auto")
      ->check(CLI::IsMember({"auto", "yes", "no"}));
  command->add_flag("--print-run-dir", a->print_run_dir,
                    "Print the path of the run directory and exit");
  command->callback([&chosen, a] {
    if (a->or_start && a->restart != "latest")
      throw CLI::ValidationError("--or-start",
                                 "works only with --restart latest, not with a named checkpoint");
    chosen = [a] { return a->print_run_dir ? print_run_dir(*a) : train(*a); };
  });
}

}  // namespace trireme
