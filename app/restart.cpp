#include "app/restart.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/base/hash.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/comm/agree.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/io/checkpoint_choice.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/run_directory.hpp"

namespace trireme {

namespace {

// Returns the damage of a checkpoint, or nothing. Each rank checks its share of the files. All
// ranks return the same result. Collective.
std::optional<std::string> damage_of(const Communicator& world, const std::string& checkpoint,
                                     Check check) {
  std::string mine;
  together(world, Pace::slow, [&] {
    mine = damage_of(std::filesystem::path(checkpoint), check, {world.rank(), world.size()})
               .value_or("");
  });
  for (auto& damage : world.all_gather(mine))
    if (!damage.empty()) return std::move(damage);
  return {};
}

// Throws SharedError if ranks find different files. If a rank saw an older copy of the directory,
// the restart would set newer checkpoints aside. Collective.
void require_one_view(const Communicator& world, const std::string& found,
                      const std::string& place) {
  const auto all = world.all_gather(found);
  const auto other = std::ranges::find_if(all, [&](const auto& f) { return f != all[0]; });
  if (other == all.end()) return;
  throw SharedError(fmt::format(
      "{}: rank 0 finds {}, rank {} finds {}. Put the run directory on a file system that all "
      "nodes share, or wait until all nodes see the same files",
      place, all[0], other - all.begin(), *other));
}

void require_one_manifest(const Communicator& world, const std::string& checkpoint) {
  if (world.size() == 1) return;
  std::string found;
  together(world, Pace::slow, [&] {
    try {
      const auto text = read_text(std::filesystem::path(checkpoint) / manifest_name);
      found = fmt::format("the manifest {}", to_string(hash128(text)));
    } catch (const Error& e) {  // damage, if all ranks find it
      found = fmt::format("no manifest ({})", e.what());
    }
  });
  require_one_view(world, found, checkpoint);
}

// Returns the identity of the run from the newest checkpoint that can be read, and sets `name` to
// that checkpoint.
std::string run_id_of(const std::vector<CheckpointInfo>& checkpoints, std::string& name) {
  for (auto info = checkpoints.rbegin(); info != checkpoints.rend(); ++info) {
    try {
      const CheckpointReader reader(info->directory);
      name = info->directory.filename().string();
      return reader.meta().run;
    } catch (const Error&) {  // a damaged checkpoint has no identity
    }
  }
  return {};
}

// Throws Error if the checkpoint belongs to another run than the checkpoints beside it. A
// checkpoint that was copied in is not resumed from. `asked_by` begins the message.
void require_one_run(const std::string& checkpoint, const std::vector<CheckpointInfo>& older,
                     std::string_view asked_by) {
  std::string name;
  const auto before = run_id_of(older, name), run = CheckpointReader(checkpoint).meta().run;
  require(before.empty() || before == run,
          "{}: {} belongs to the run {}, but {} in the same folder belongs to the "
          "run {}. Move the checkpoints of the other run elsewhere",
          asked_by, checkpoint, run, name, before);
}

// Throws Error if the run once had checkpoints and has none left. Without this check, the run would
// silently start again.
void require_none_lost(const std::filesystem::path& checkpoints) {
  const auto run = checkpoints.parent_path();
  const auto outcome = read_outcome(run);
  if (!outcome) return;
  const std::filesystem::path last = outcome->last_good_checkpoint, folder = last.parent_path();
  const bool its_own = !last.empty() && folder.filename() == checkpoints.filename() &&
                       folder.parent_path().filename() == run.filename();
  require(!its_own,
          "--restart latest: the run's outcome.json names the checkpoint {}, but {} contains no "
          "checkpoint. Put the checkpoint back, name a copy with --restart DIR, or start again "
          "with --overwrite; nothing was changed",
          last.string(), checkpoints.string());
}

std::string named(const Communicator& world, const std::string& restart) {
  std::string path;
  at_root(world, [&] { path = find_checkpoint(restart).string(); });
  world.broadcast(path);
  require_one_manifest(world, path);
  // Elements are checked when they are loaded.
  if (const auto damage = damage_of(world, path, Check::metadata))
    throw SharedError(
        fmt::format("--restart {}: {}. You can also name an older checkpoint", restart, *damage));
  return path;
}

// Returns the newest intact checkpoint. Returns an empty string if there is no checkpoint. Throws
// SharedError if all are damaged. Collective.
std::string newest_undamaged(const Communicator& world, const std::filesystem::path& checkpoints,
                             const std::optional<AllowedSteps>& rollback) {
  std::vector<CheckpointInfo> left;  // on rank 0, oldest first
  std::string newest;
  together(world, Pace::slow, [&] {
    left = list_checkpoints(checkpoints);
    std::erase_if(left, [&](const CheckpointInfo& info) {
      return rollback && (info.step > rollback->at_most || info.step % rollback->multiple_of != 0);
    });
    newest = left.empty() ? "no checkpoint"
                          : left.back().directory.filename().string() + " as the newest checkpoint";
    if (world.rank() != 0) left.clear();
  });
  require_one_view(world, newest, checkpoints.string());
  std::vector<std::string> skipped;
  while (true) {
    std::string path;
    if (!left.empty()) {
      path = left.back().directory.string();
      left.pop_back();
    }
    world.broadcast(path);
    if (path.empty()) break;
    require_one_manifest(world, path);
    auto damage = damage_of(world, path, Check::hashes);
    if (!damage) {
      at_root(world, Pace::slow, [&] {
        require_one_run(path, left, rollback ? "train.rollback" : "--restart latest");
      });
      for (const auto& reason : skipped) log_warning("skipped: {}", reason);
      return path;
    }
    skipped.push_back(*std::move(damage));
  }
  if (skipped.empty()) return {};
  if (rollback)
    throw SharedError(fmt::format(
        "train.rollback: all checkpoints in {} up to step {} at multiples of "
        "checkpoint.every_steps are damaged or cannot be read ({} found). Check them with `trireme "
        "inspect`, wait for the file system, or name another checkpoint with --restart DIR. The "
        "newest: {}",
        checkpoints.string(), rollback->at_most, skipped.size(), skipped[0]));
  throw SharedError(fmt::format(
      "--restart latest: all checkpoints in {} are damaged or cannot be read ({} found). Check "
      "them with `trireme inspect`, wait for the file system, name an older copy with --restart "
      "DIR, or start again with --overwrite. The newest: {}",
      checkpoints.string(), skipped.size(), skipped[0]));
}

std::string latest(const Communicator& world, const std::filesystem::path& checkpoints) {
  auto path = newest_undamaged(world, checkpoints, {});
  if (!path.empty()) return path;
  at_root(world, Pace::slow, [&] { require_none_lost(checkpoints); });
  log_info("--restart latest: {} holds no checkpoint, so training starts fresh",
           checkpoints.string());
  return {};
}

}  // namespace

std::string checkpoint_to_restart(const Communicator& world, const std::string& restart,
                                  const std::filesystem::path& checkpoints) {
  if (restart.empty()) return {};
  return restart == "latest" ? latest(world, checkpoints) : named(world, restart);
}

std::string checkpoint_to_roll_back_to(const Communicator& world,
                                       const std::filesystem::path& checkpoints,
                                       AllowedSteps allowed) {
  return newest_undamaged(world, checkpoints, allowed);
}

// Throws Error if the run was trained with another optimizer and one of the two updates whole
// matrices. Their arrays may have the same names and shapes, so that their state would be mistaken.
static void require_same_optimizer(const Inputs& in) {
  if (in.from->meta().deck.empty()) return;
  const auto before = deck_of(*in.from).optimizer.name, after = in.deck.optimizer.name;
  require(before == after || (!sees_matrices(before) && !sees_matrices(after)),
          "{} was trained with optimizer.name = \"{}\", but the deck has \"{}\": restart with the "
          "same optimizer, or start a new run from its weights with model.init_from",
          in.from->directory().string(), name_of(before), name_of(after));
}

void compare_models(const Communicator& world, const Inputs& in, OtherModel other) {
  if (!in.from) return;
  together(world, [&] {
    require_same_optimizer(in);
    const auto differences = model_differences(description_of(*in.from), description_of(in.deck));
    if (differences.empty()) return;
    const auto text = fmt::format("the model in {} computes differently from the deck's model: {}",
                                  in.from->directory().string(), fmt::join(differences, "; "));
    require(other == OtherModel::allowed,
            "{}. Set these keys to the former values, or pass --allow-other-model to "
            "continue with the new values",
            text);
    log_warning("{}. Training continues with the new values", text);
  });
}

}  // namespace trireme
