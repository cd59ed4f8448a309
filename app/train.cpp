// trireme train DECK [section.key=value ...]
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>

#include "app/commands.hpp"
#include "app/launch.hpp"
#include "app/prepare.hpp"
#include "lib/base/log.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/launch/mpi_job.hpp"
#include "lib/train/loop.hpp"

namespace trireme {

namespace {

constexpr int exit_stopped_early = 75;  // EX_TEMPFAIL: requeue me

struct TrainArguments {
  DeckArguments deck;
  std::string restart, run_dir, time_limit;
  bool overwrite = false;
};

std::string text_of(const TrainArguments& a) {
  return fmt::format("{} {} --restart '{}' --run-dir '{}' --time-limit '{}'{}", a.deck.path,
                     fmt::join(a.deck.overrides, " "), a.restart, a.run_dir, a.time_limit,
                     a.overwrite ? " --overwrite" : "");
}

// Where training goes on; empty: from the start. Rank 0 looks.
std::string checkpoint_to_restart(const Communicator& world, const std::string& restart,
                                  const std::filesystem::path& checkpoints) {
  std::string path;
  if (restart.empty()) return path;
  at_root(world, [&] {
    if (restart != "latest") {
      path = find_checkpoint(restart).string();
      return;
    }
    const auto newest = newest_intact(checkpoints, Check::hashes);
    for (const auto& reason : newest.skipped) log_warning("skipped: {}", reason);
    if (newest.found)
      path = newest.found->directory.string();
    else
      log_info("--restart latest: {} holds no intact checkpoint, so training starts fresh",
               checkpoints.string());
  });
  world.broadcast(path);
  return path;
}

void print_differences(const CheckpointReader& from, const Deck& deck) {
  const auto before = parse_deck(from.meta().deck, from.directory().string());
  for (const auto& line : deck_differences(before, deck)) log_info("deck changed: {}", line);
}

LoopSettings loop_settings(const Deck& d, const TrainArguments& a,
                           std::chrono::steady_clock::time_point started) {
  LoopSettings s{
      d.train,      d.optimizer,     d.schedule,       d.evaluate,
      d.checkpoint, d.run.log_every, d.run.time_limit, {d.run.trace_steps, d.run.trace_ranks},
      started};
  if (!a.time_limit.empty()) s.time_limit = parse_duration(a.time_limit);
  return s;
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

void greet(const Prepared& p) {
  log_info("{:.2f}M parameters, {} backend with {} threads, {}{}",
           static_cast<double>(p.trainer->model().spec().parameter_count()) * 1e-6,
           p.backend->name(), p.choice.threads, name_of(p.trainer->model().compute()),
           p.axes.grid.ranks() > 1 ? ", " + describe(p.axes.grid) : "");
  if (!p.from) return;
  log_info("restarting from {} (step {})", p.from->directory().string(), p.meta.step);
  print_differences(*p.from, p.deck);
}

// Which rank a process is that a launcher's message or a debugger names.
void log_processes(const Communicator& world) {
  if (world.size() == 1) return;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const auto hosts = world.all_gather(host);
  const auto processes = world.all_gather(fmt::format("{}", ::getpid()));
  std::string text;
  for (std::size_t r = 0; r < hosts.size(); ++r)
    text += r > 0 && hosts[r] == hosts[r - 1]
                ? fmt::format(" {}", processes[r])
                : fmt::format("{}{} {}", r > 0 ? ", " : "", hosts[r], processes[r]);
  log_detail("processes by rank: {}", text);
}

// What `plan` foretold.
void log_memory(const Communicator& world, const Account& account) {
  const auto reserved = world.all_gather(fmt::format("{}", account.reserved));
  log_detail("bytes reserved by rank: {}", fmt::join(reserved, " "));
}

// `directory` is there on rank 0 alone.
int train_in(const RunDirectory* directory, const std::filesystem::path& run, Prepared& p,
             const TrainArguments& a, SignalWatch& signals,
             std::chrono::steady_clock::time_point started) {
  at_root(p.axes.world, [&] { greet(p); });
  log_processes(p.axes.world);
  const std::string restored = p.from ? p.from->directory().string() : "";
  p.from.reset();
  TrainLoop loop(*p.trainer, p.training, p.validation ? &*p.validation : nullptr, directory,
                 run / "checkpoints", signals, loop_settings(p.deck, a, started), std::move(p.meta),
                 restored);
  const auto outcome = [&](const char* status, const std::string& reason) {
    if (directory) directory->write_outcome({status, loop.step(), reason, loop.last_checkpoint()});
  };
  Ending ending{};
  try {
    ending = loop.run();
  } catch (const std::exception& e) {
    try {
      outcome("failed", e.what());
    } catch (const Error& second) {
      log_error("{}", second.what());
    }
    throw;
  }
  log_memory(p.axes.world, p.backend->account());
  if (!p.deck.freeze.empty())
    log_detail("finding out what is trainable took {:.2g} s a step",
               p.trainer->detection_seconds() /
                   static_cast<double>(std::max<std::int64_t>(1, loop.step())));
  if (ending == Ending::done) {
    outcome("done", "all steps are done");
    log_info("done: {} steps", loop.step());
    return 0;
  }
  outcome("stopped", loop.reason());
  std::string overrides;
  for (const auto& o : a.deck.overrides) overrides += " '" + o + "'";
  log_info("stopped after step {}: {}. To go on: trireme train {}{} --run-dir {} --restart latest",
           loop.step(), loop.reason(), a.deck.path, overrides, run.string());
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

// All ranks write where rank 0 means, wherever they were started.
std::filesystem::path run_path(const Communicator& world, const std::filesystem::path& given) {
  if (world.size() == 1) return given;
  auto path = std::filesystem::absolute(given).string();
  world.broadcast(path);
  return path;
}

int train_on(const Communicator& world, const TrainArguments& a) {
  const auto started = std::chrono::steady_clock::now();
  SignalWatch signals;
  require_launch(world);
  if (world.rank() != 0) log_quietly();
  require_same_arguments(world, text_of(a));
  auto deck = read_deck(world, a.deck);
  world.configure({.hang_timeout = deck.run.hang_timeout, .check_labels = deck.run.debug});
  const auto run = run_path(world, a.run_dir.empty() ? "runs/" + deck.name : a.run_dir);
  Existing existing{};
  at_root(world, [&] {
    existing = intent(a, run);
    if (existing == Existing::refuse) refuse_existing_run(run);
  });
  const auto from = checkpoint_to_restart(world, a.restart, run / "checkpoints");
  auto prepared = prepare(world, std::move(deck), from);
  if (prepared.finished()) {
    log_info("the run is finished: {} steps are done", prepared.meta.step);
    return 0;
  }
  std::optional<RunDirectory> directory;
  at_root(world, [&] {
    directory.emplace(run, existing);
    log_to(directory->log());
    settle(*directory, prepared);
  });
  return train_in(directory ? &*directory : nullptr, run, prepared, a, signals, started);
}

int train(const TrainArguments& a) {
  const launch::MpiJob job;
  const auto& world = job.world();
  try {
    return train_on(world, a);
  } catch (const SharedError& e) {  // every rank is here
    if (world.rank() == 0) log_error("{}", e.what());
    return 1;
  } catch (const std::exception& e) {
    log_error("{}{}", world.size() > 1 ? fmt::format("rank {}: ", world.rank()) : "", e.what());
    if (world.size() == 1) return 1;
    job.abort(1);
  }
}

}  // namespace

int end_train(const std::function<int()>& say) {
  if (launch::launched_ranks() < 2) return say();
  const launch::MpiJob job;
  const auto& world = job.world();
  try {
    require_launch(world);
    require_same_arguments(world, "not to train");
    return world.rank() == 0 ? say() : 0;
  } catch (const Error& e) {
    if (world.rank() == 0) log_error("{}", e.what());
    return 1;
  }
}

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
