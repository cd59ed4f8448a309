#include "app/run_start.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/io/checkpoint_choice.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/run_lock.hpp"
#include "lib/launch/batch_job.hpp"

namespace trireme {

JobStart start_of(const TrainArguments& a) {
  auto command = a.deck.path;
  for (const auto& o : a.deck.overrides) command += " " + o;
  if (!a.restart.empty()) command += " --restart " + a.restart;
  if (a.or_start) command += " --or-start";
  if (a.overwrite) command += " --overwrite";
  if (a.other_model == OtherModel::allowed) command += " --allow-other-model";
  return {launch::job_id(), launch::restart_count(), command, launch::recovery_count()};
}

std::filesystem::path run_of(const TrainArguments& a, const Deck& deck) {
  return a.run_dir.empty() ? "runs/" + deck.name : a.run_dir;
}

std::filesystem::path run_path(const Communicator& world, const std::filesystem::path& given) {
  if (world.size() == 1) return given;
  auto path = std::filesystem::absolute(given).string();
  world.broadcast(path);
  return path;
}

int print_run_dir(const TrainArguments& a) {
  fmt::print("{}\n", run_of(a, load_deck(a.deck.path, a.deck.overrides)).string());
  return 0;
}

bool is_checkpoint_of(const std::filesystem::path& checkpoint, const std::filesystem::path& run) {
  namespace fs = std::filesystem;
  std::error_code e;
  auto named = fs::absolute(checkpoint, e).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();
  const auto own = fs::weakly_canonical(run / "checkpoints", e);
  return fs::weakly_canonical(named, e).parent_path() == own ||
         fs::weakly_canonical(named.parent_path(), e) == own;
}

StartMode start_mode_of(const StartMode& asked, const std::filesystem::path& run,
                        const JobStart& start) {
  const auto there = read_outcome(run);
  if (there && start.follows(there->start)) {
    const bool saved = !list_checkpoints(run / "checkpoints").empty();
    return {Existing::restart, saved ? "latest" : asked.restart};
  }
  if (asked.existing == Existing::overwrite) {
    // An earlier start of this job has already overwritten the previous contents.
    const bool may_be_its_own =
        (start.restart > 0 || start.recovery > 0) && (!there || start.is_after(there->start));
    require(!may_be_its_own || list_checkpoints(run / "checkpoints").empty(),
            "--overwrite would remove the checkpoints in {}, which may be those of an earlier "
            "start of this job: {}. Resume from them with --restart latest, or submit a new job",
            run.string(),
            there ? "that start had a different command line"
                  : "outcome.json, which names the start, cannot be read");
    return asked;
  }
  if (asked.restart.empty()) return asked;
  const bool here =
      asked.restart == "latest" || is_checkpoint_of(find_checkpoint(asked.restart), run);
  return {here ? Existing::restart : Existing::refuse, asked.restart};
}

StartMode mode_of_root(const Communicator& world, const StartMode& decided) {
  auto bytes = std::string(1, static_cast<char>(decided.existing)) + decided.restart;
  world.broadcast(bytes);
  return {static_cast<Existing>(bytes[0]), bytes.substr(1)};
}

void require_run_to_restart(const TrainArguments& a, const std::filesystem::path& run) {
  if (a.restart != "latest" || a.or_start) return;
  const auto holds = [&](const char* name) { return is_there(run / name); };
  require(std::ranges::any_of(std::array{"checkpoints", "outcome.json", "history.csv"}, holds),
          "--restart latest: there is no run in {}. Correct --run-dir, or add --or-start to start "
          "a new run there",
          run.string());
}

void stop_if_asked(const Communicator& world, bool asked_here) {
  double asked = asked_here;
  world.all_reduce_max({&asked, 1});
  if (asked > 0)
    throw StoppedEarly("a signal requested a stop before training began; nothing was changed");
}

void lock_directory(std::optional<RunDirectory>& directory, const std::filesystem::path& run,
                    Existing existing, const SignalWatch& signals) {
  try {
    directory.emplace(run, existing, [&] { return signals.stop(); });
  } catch (const StoppedWaiting& e) {
    log_warning("{}", e.what());
  }
}

}  // namespace trireme
