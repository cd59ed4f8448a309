#include "app/train_start.hpp"

#include <span>

#include "app/restart.hpp"
#include "lib/base/log.hpp"
#include "lib/base/log_errors.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/rollback_rows.hpp"
#include "lib/io/run_starts.hpp"
#include "lib/train/copy_saver.hpp"

namespace trireme {
namespace {

// Clears and fills the run directory on rank 0, after all checks that could still refuse the run.
void prepare_directory(const RunDirectory& directory, Existing existing, const CheckpointMeta& meta,
                       std::span<const RollbackRow> rollbacks) {
  directory.require_lock();
  if (existing == Existing::overwrite) directory.remove_earlier_run();
  log_to(directory.log());
  for (const auto& path : clean_checkpoints(directory.checkpoints()))
    log_info("removed {}, left by an interrupted save", path.string());
  for (const auto& path : set_aside_after(directory.checkpoints(), meta.step))
    log_warning("training resumes from step {}: a later checkpoint was renamed to {}", meta.step,
                path.string());
  write_rollbacks(directory.path(), rollbacks);
  add_start(directory.path(),
            {meta.step, meta.samples, meta.tokens, meta.extra.data_phases, meta.extra.token_files,
             meta.deck},
            existing == Existing::restart ? EarlierStarts::kept : EarlierStarts::dropped);
  directory.write_deck(meta.deck);
}

Preferences preferences_of(const Deck& deck) {
  const auto measures = traits_of(deck.train.objective).measures;
  return measures == Measures::preferences ? Preferences::some : Preferences::none;
}

}  // namespace

TrainStart find_start(const Communicator& world, const SignalWatch& signals,
                      const TrainArguments& a, const Deck& deck,
                      const std::optional<RolledBack>& rolled_back) {
  auto asked = StartMode{a.overwrite ? Existing::overwrite : Existing::refuse, a.restart};
  if (rolled_back) asked = {Existing::restart, "latest"};
  TrainStart s{run_path(world, run_of(a, deck)), start_of(a), {}, {}, {}};
  at_root(world, Pace::slow, [&] {
    require_run_to_restart(a, s.run);
    s.mode = start_mode_of(asked, s.run, s.job);
    if (!is_there(s.run)) return;
    if (rolled_back) s.directory = rolled_back->directory;
    if (rolled_back) return;
    lock_directory(s.directory, s.run, s.mode.existing, signals);
    if (!s.directory) return;
    const auto now = start_mode_of(asked, s.run, s.job);
    require(now.existing == s.mode.existing,
            "another job trained in {} while this job waited for the lock of that directory. Start "
            "this job again",
            s.run.string());
    s.mode = now;
    if (s.mode.existing != Existing::restart) return;
    require_tables(*s.directory);
    put_back_replaced(s.directory->checkpoints());
  });
  if (!rolled_back) stop_if_asked(world, signals.stop());
  s.mode = mode_of_root(world, s.mode);
  if (rolled_back) {
    const AllowedSteps allowed{rolled_back->rollback.last_good, deck.checkpoint.every_steps};
    s.from = checkpoint_to_roll_back_to(world, s.run / "checkpoints", allowed);
    at_root(world, Pace::slow,
            [&] { record_rollback(*s.directory, s.from, rolled_back->rollback); });
    return s;
  }
  s.from = checkpoint_to_restart(world, s.mode.restart, s.run / "checkpoints");
  stop_if_asked(world, signals.stop());
  return s;
}

LockedRun begin_run(const Communicator& world, TrainStart& s, const SignalWatch& signals,
                    const std::filesystem::path& deck, const Inputs& in, const Machine& machine,
                    Origin origin, Differences differences, RunRecord& record) {
  LockedRun locked{s.run, {}};
  // Before anything removes memory_copies.json, which names the copies. If the directory contains a
  // run, this job has locked it.
  if (s.mode.existing == Existing::restart || s.mode.existing == Existing::overwrite)
    remove_earlier_copies(world, s.run, in.meta.step);
  at_root(world, Pace::slow, [&] {
    if (!s.directory) lock_directory(s.directory, s.run, Existing::absent, signals);
    if (!s.directory) return;
    locked.lock_text = s.directory->lock_text();
    prepare_directory(*s.directory, s.mode.existing, in.meta, in.rollbacks);
    record = RunRecord(*s.directory, origin, preferences_of(in.deck), names_of_sets(in.validation),
                       in.deck.run.digest_every > 0 ? Digests::some : Digests::none,
                       in.deck.model.experts > 0 ? RoutingTable::some : RoutingTable::none, in.meta,
                       s.job);
    if (in.deck.run.tensorboard) record.open_tensorboard(in.meta.step);
    log_start(in, machine, deck, s.run, differences);
  });
  stop_if_asked(world, world.rank() == 0 && !s.directory);
  world.broadcast(locked.lock_text);
  if (world.rank() != 0) log_errors_to(s.run / "log");
  return locked;
}

}  // namespace trireme
