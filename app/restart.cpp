#include "app/restart.hpp"

#include <optional>
#include <vector>

#include "lib/base/log.hpp"
#include "lib/comm/agree.hpp"
#include "lib/deck/preset.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/model/spec.hpp"
#include "lib/train/state.hpp"

namespace trireme {

namespace {

// Of all ranks' shares of the files; the same on every rank.
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

std::string named(const Communicator& world, const std::string& restart) {
  std::string path;
  at_root(world, [&] { path = find_checkpoint(restart).string(); });
  world.broadcast(path);
  // Elements are checked when they are loaded.
  if (const auto damage = damage_of(world, path, Check::metadata))
    throw SharedError(
        fmt::format("--restart {}: {} -- where its shards are intact, `trireme inspect {} "
                    "--repair` mends it; or name an older checkpoint",
                    restart, *damage, path));
  return path;
}

std::string latest(const Communicator& world, const std::filesystem::path& checkpoints) {
  std::vector<CheckpointInfo> left;  // at rank 0, oldest first
  at_root(world, [&] { left = list_checkpoints(checkpoints); });
  std::vector<std::string> skipped;
  while (true) {
    std::string path;
    if (!left.empty()) {
      path = left.back().directory.string();
      left.pop_back();
    }
    world.broadcast(path);
    if (path.empty()) break;
    auto damage = damage_of(world, path, Check::hashes);
    if (!damage) {
      for (const auto& reason : skipped) log_warning("skipped: {}", reason);
      return path;
    }
    skipped.push_back(*std::move(damage));
  }
  if (!skipped.empty())
    throw SharedError(fmt::format(
        "--restart latest: none of the {} checkpoints in {} can be read -- look at them with "
        "`trireme inspect`, wait for the file system, name an older copy with --restart DIR, or "
        "begin anew with --overwrite. The newest: {}",
        skipped.size(), checkpoints.string(), skipped[0]));
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

void compare_models(const Communicator& world, const Inputs& in, OtherModel other) {
  if (!in.from) return;
  together(world, [&] {
    const auto& model = in.deck.model;
    require_model(*in.from, make_spec(model));
    const auto differences = model_differences(model_of(*in.from), model);
    if (differences.empty()) return;
    const auto text =
        fmt::format("{} holds weights of a model that computes otherwise: {}",
                    in.from->directory().string(), fmt::join(differences, "; "));
    require(other == OtherModel::allowed,
            "{} -- give [model] these values again, or --allow-other-model to train on as another "
            "model",
            text);
    log_warning("{}: they are trained on as another model", text);
  });
}

}  // namespace trireme
