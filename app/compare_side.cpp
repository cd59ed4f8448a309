#include "app/compare_side.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string_view>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/io/shard_file.hpp"

namespace trireme {

namespace fs = std::filesystem;

static void open_checkpoint(Side& side) {
  const CheckpointReader reader(side.path);
  side.meta = reader.meta();
  side.step = reader.meta().step;
  side.deck = deck_of(reader);
  const auto folder = fs::absolute(side.path).lexically_normal();
  const auto parent =
      folder.has_filename() ? folder.parent_path() : folder.parent_path().parent_path();
  side.checkpoints = list_checkpoints(parent);
}

static void open_run(Side& side) {
  const auto deck = side.path / "effective.toml";
  side.is_run = true;
  side.deck = parse_deck(read_text(deck), deck.string());
  side.history = read_history(side.path / "history.csv");
  for (const auto& set : evaluated_sets(side.path))
    side.evaluations[set] = read_evaluations(evaluation_table(side.path, set));
  side.digests = read_digests(side.path / "digests.csv");
  side.checkpoints = list_checkpoints(side.path / "checkpoints");
  if (!side.history.empty()) side.step = side.history.back().step;
  const auto newest = newest_intact(side.path / "checkpoints", Check::sizes);
  if (newest.found) side.meta = CheckpointReader(newest.found->directory).meta();
}

Side open_side(std::string label, const fs::path& path) {
  Side side;
  side.label = std::move(label);
  side.path = path;
  if (is_there(path / manifest_name) || is_there(path / shard_name(0)))
    open_checkpoint(side);
  else if (is_there(path / "effective.toml"))
    open_run(side);
  else
    fail("{} is neither a checkpoint (no {}) nor a run directory (no effective.toml)",
         path.string(), manifest_name);
  return side;
}

std::optional<CheckpointReader> checkpoint_of(const Side& side, std::int64_t step) {
  if (!side.is_run && side.step == step) return CheckpointReader(side.path);
  for (const auto& info : side.checkpoints)
    if (info.step == step && !damage_of(info.directory, Check::sizes))
      return CheckpointReader(info.directory);
  return {};
}

std::optional<CheckpointInfo> checkpoint_before(const Side& side, std::int64_t step) {
  for (auto i = side.checkpoints.rbegin(); i != side.checkpoints.rend(); ++i)
    if (i->step < step && !damage_of(i->directory, Check::sizes)) return *i;
  return {};
}

std::vector<std::int64_t> common_checkpoints(const Side& a, const Side& b) {
  std::vector<std::int64_t> steps;
  for (const auto& info : a.checkpoints)
    if (std::ranges::find(b.checkpoints, info.step, &CheckpointInfo::step) != b.checkpoints.end())
      steps.push_back(info.step);
  return steps;
}

constexpr std::string_view same_tokens = " (the same tokens)";

// Returns what a checkpoint records about its origin, except for the deck and the counters of the
// training loop.
static std::map<std::string, std::string> making(const Side& side) {
  std::map<std::string, std::string> all;
  if (!side.meta) return all;
  all["version"] = side.meta->version;
  const auto& extra = side.meta->extra;
  if (!extra.machine.empty()) all["machine"] = extra.machine;
  if (!extra.order_of_few.empty()) all["order_of_few"] = extra.order_of_few;
  if (!extra.base.empty()) all["base"] = extra.base;
  if (!extra.reference.empty()) all["reference"] = extra.reference;
  if (!extra.token_files.empty()) all["token_files"] = extra.token_files;
  return all;
}

std::vector<std::string> setting_differences(const Side& a, const Side& b) {
  auto lines = deck_differences(a.deck, b.deck);
  const auto x = making(a), y = making(b);
  const auto tokens = x.find("token_files"), others = y.find("token_files");
  if (tokens != x.end() && others != y.end() && tokens->second == others->second)
    for (auto& line : lines)
      if (line.starts_with("data.path:")) line += same_tokens;
  for (const auto& [key, value] : x)
    if (const auto other = y.find(key); other != y.end() && other->second != value)
      lines.push_back(
          fmt::format("{}: {} -> {}", escaped(key), escaped(value), escaped(other->second)));
  return lines;
}

std::vector<std::string> other_training(const std::vector<std::string>& differences) {
  // The length of a run affects training only through the learning rate, which histories record.
  constexpr std::array<std::string_view, 14> same{"parallel.",        "zero.",
                                                  "checkpoint.",      "evaluate.",
                                                  "validation.",      "run.",
                                                  "train.steps:",     "train.tokens:",
                                                  "train.epochs:",    "train.microbatch:",
                                                  "model.recompute:", "precision.reduce:",
                                                  "version:",         "machine:"};
  std::vector<std::string> others;
  std::ranges::copy_if(differences, std::back_inserter(others), [&](const std::string& line) {
    return !line.ends_with(same_tokens) &&
           std::ranges::none_of(same, [&](auto prefix) { return line.starts_with(prefix); });
  });
  return others;
}

}  // namespace trireme
