#include "lib/io/checkpoint_list.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <system_error>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/text_parts.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/io/checkpoint_save.hpp"
#include "lib/io/shard_file.hpp"

namespace trireme {

namespace fs = std::filesystem;

// Returns the step in a name like "step-00000420", or nothing for any other name.
static std::optional<std::int64_t> step_of(std::string_view name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix)) return {};
  const auto step = number_in<std::int64_t>(name.substr(prefix.size()));
  return step && name == checkpoint_name(*step) ? step : std::nullopt;
}

// Prefix of checkpoints that a restart from an earlier checkpoint set aside.
constexpr std::string_view left_prefix = "left-";

// A hidden name, split into the name that would be visible and the suffix after it.
struct HiddenName {
  std::int64_t step;
  std::string visible, suffix;
};

static std::optional<HiddenName> hidden_name(const fs::path& path) {
  const auto name = path.filename().string();
  const auto dot = name.rfind('.');
  if (name.empty() || name[0] != '.' || dot == 0) return {};
  auto visible = name.substr(1, dot - 1);
  const auto step = step_of(visible);
  if (!step) return {};
  return HiddenName{*step, std::move(visible), name.substr(dot)};
}

static bool is_left_by_save(const HiddenName& name) {
  return name.suffix == replaced_suffix || name.suffix == partial_suffix ||
         name.suffix == removed_suffix;
}

bool is_checkpoint_entry(std::string_view name) {
  if (step_of(name)) return true;
  if (const auto hidden = hidden_name(name)) return is_left_by_save(*hidden);
  if (!name.starts_with(left_prefix)) return false;
  name.remove_prefix(left_prefix.size());
  const auto end = name.rfind('-');  // in "step-00000009-2", the second dash
  return step_of(name) ||
         (end != name.npos && step_of(name.substr(0, end)) && number_in<int>(name.substr(end + 1)));
}

// Returns true if a save stopped between its two renames. The checkpoint is complete, but it still
// has a hidden name.
static bool stepped_aside(const fs::path& checkpoints, const HiddenName& name) {
  return name.suffix == replaced_suffix && !is_there(checkpoints / name.visible);
}

static std::vector<fs::path> entries_if_there(const fs::path& directory) {
  return is_there(directory) ? entries_of(directory) : std::vector<fs::path>();
}

std::vector<CheckpointInfo> list_checkpoints(const fs::path& checkpoints) {
  std::vector<CheckpointInfo> all;
  for (const auto& path : entries_if_there(checkpoints)) {
    if (const auto step = step_of(path.filename().string())) all.push_back({path, *step});
    const auto hidden = hidden_name(path);
    if (hidden && stepped_aside(checkpoints, *hidden)) all.push_back({path, hidden->step});
  }
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.step < b.step; });
  return all;
}

// Adds a hint to a description of damage: repairing recreates the manifest and files without
// elements.
static std::string with_repair(const fs::path& checkpoint, std::string_view damage) {
  return fmt::format("{} -- if its shards are intact, `trireme inspect {} --repair` restores it",
                     damage, checkpoint.string());
}

// Returns true if repairing may succeed. It can recreate everything except shards, so all shards
// must have their full size.
static bool may_be_repaired(const fs::path& checkpoint) {
  std::error_code e;
  if (!fs::exists(checkpoint / shard_name(0), e)) return false;
  try {
    const auto path = checkpoint / manifest_name;
    for (const auto& file : parse_manifest(read_text(path), path.string()).files) {
      const auto size = fs::file_size(checkpoint / file.name, e);
      if (file.rank >= 0 && (e || size != static_cast<std::uintmax_t>(file.size))) return false;
    }
  } catch (const Error&) {  // the records in the shards replace it
  }
  return true;
}

std::optional<std::string> damage_of(const fs::path& checkpoint, Check check, Share share) {
  std::optional<CheckpointReader> reader;
  try {
    reader.emplace(checkpoint);
    const auto name = checkpoint.filename().string();
    if (const auto step = step_of(name); step && *step != reader->meta().step) {
      return fmt::format(
          "{} contains step {}, but its name is that of another step: rename it or move it "
          "elsewhere",
          checkpoint.string(), reader->meta().step);
    }
    std::vector<std::string> problems;
    bool shards = false;
    const auto files = static_cast<int>(reader->files().size());
    for (int i = share.index; i < files; i += share.of)
      for (auto& problem : reader->verify(check, i, files)) {
        shards |= reader->files()[static_cast<std::size_t>(i)].rank >= 0;
        problems.push_back(std::move(problem));
      }
    if (problems.empty()) return {};
    auto text = fmt::format("{} is damaged: {}", checkpoint.string(), problems[0]);
    if (problems.size() > 1) text += fmt::format(" (and {} more)", problems.size() - 1);
    return shards ? text : with_repair(checkpoint, text);
  } catch (const Error& e) {
    return !reader && may_be_repaired(checkpoint) ? with_repair(checkpoint, e.what()) : e.what();
  }
}

NewestIntact newest_intact(const fs::path& checkpoints, Check check,
                           const std::set<fs::path>& without) {
  NewestIntact result;
  auto all = list_checkpoints(checkpoints);
  int listings_left = 10;  // a network file system may list removed entries
  while (!all.empty()) {
    const auto info = all.back();
    if (without.contains(info.directory)) {
      all.pop_back();
      continue;
    }
    const auto damage = damage_of(info.directory, check);
    if (!damage) {
      result.found = info;
      return result;
    }
    if (is_there(info.directory) || --listings_left == 0) {
      result.skipped.push_back({info.directory, *damage});
      all.pop_back();
    } else {  // a run saved a newer one and removed it
      all = list_checkpoints(checkpoints);
      result.skipped.clear();
    }
  }
  return result;
}

std::vector<CheckpointInfo> intact_checkpoints(const fs::path& checkpoints) {
  std::vector<CheckpointInfo> intact;
  for (const auto& info : list_checkpoints(checkpoints)) {
    if (const auto damage = damage_of(info.directory, Check::sizes))
      log_warning("a checkpoint is not used: {}", *damage);
    else
      intact.push_back(info);
  }
  return intact;
}

// Removes a checkpoint. Renames it first, so that an interrupted removal never looks like a damaged
// checkpoint.
static void remove_checkpoint(const CheckpointInfo& info) {
  auto doomed = info.directory.parent_path() /
                fmt::format(".{}{}", checkpoint_name(info.step), removed_suffix);
  remove_tree(doomed);
  rename_path(info.directory, doomed);
  remove_tree(doomed);
}

// Returns the steps of the best checkpoints that are kept.
static std::set<std::int64_t> steps_of_best(const std::vector<CheckpointInfo>& all,
                                            std::int64_t keep_best,
                                            std::span<const std::int64_t> best_first) {
  std::set<std::int64_t> steps;
  std::int64_t intact = 0;
  for (const auto step : best_first) {
    if (intact == keep_best) break;
    const auto found = std::ranges::find(all, step, &CheckpointInfo::step);
    if (found == all.end()) continue;
    steps.insert(step);
    if (!damage_of(found->directory, Check::sizes)) ++intact;
  }
  return steps;
}

// Returns true if a decay of the learning rate ended with this checkpoint. Returns false if the
// manifest cannot be read.
static bool ends_decay(const CheckpointInfo& info) {
  try {
    return CheckpointReader(info.directory).meta().extra.ends_decay > 0;
  } catch (const Error&) {
    return false;
  }
}

void prune(const fs::path& checkpoints, const CheckpointConfig& c,
           std::span<const std::int64_t> best_first) {
  if (c.keep_last == 0) return;
  auto all = list_checkpoints(checkpoints);
  std::reverse(all.begin(), all.end());
  const auto kept_best = steps_of_best(all, c.keep_best, best_first);
  std::int64_t kept = 0;
  for (const auto& info : all) {
    if (kept < c.keep_last) {
      if (!damage_of(info.directory, Check::sizes)) ++kept;
      continue;
    }
    if (kept_best.contains(info.step)) continue;
    if (c.keep_every > 0 && info.step % c.keep_every == 0) continue;
    if (ends_decay(info)) continue;
    remove_checkpoint(info);
  }
}

std::vector<fs::path> set_aside_after(const fs::path& checkpoints, std::int64_t step) {
  std::vector<fs::path> names;
  for (const auto& info : list_checkpoints(checkpoints)) {
    if (info.step <= step) continue;
    const auto base = fmt::format("{}{}", left_prefix, checkpoint_name(info.step));
    auto name = checkpoints / base;
    for (int i = 2; is_there(name); ++i) name = checkpoints / fmt::format("{}-{}", base, i);
    rename_path(info.directory, name);
    names.push_back(name);
  }
  return names;
}

void put_back_replaced(const fs::path& checkpoints) {
  for (const auto& path : entries_if_there(checkpoints)) {
    const auto hidden = hidden_name(path);
    if (hidden && stepped_aside(checkpoints, *hidden))
      rename_path(path, checkpoints / hidden->visible);
  }
}

std::vector<fs::path> clean_checkpoints(const fs::path& checkpoints) {
  put_back_replaced(checkpoints);
  std::vector<fs::path> removed;
  for (const auto& path : entries_if_there(checkpoints)) {
    const auto hidden = hidden_name(path);
    if (!hidden || !is_left_by_save(*hidden)) continue;
    remove_tree(path);
    removed.push_back(path);
  }
  return removed;
}

}  // namespace trireme
