#include "lib/io/run_files.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <system_error>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/text_parts.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/io/event_file.hpp"
#include "lib/io/memory_copies.hpp"
#include "lib/io/run_lock.hpp"
#include "lib/io/run_tables.hpp"
#include "lib/io/shard_file.hpp"

namespace trireme {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 17> files_in_run = {
    "log",
    "history.csv",
    "evaluation.csv",
    "digests.csv",
    "routing.csv",
    "outcome.json",
    "timing.json",
    "lock",
    "effective.toml",
    "checkpoint_now",
    "stop_now",
    "skipped.csv",
    "rollbacks.csv",
    "starts.json",
    copy_owner_name,
    // Written by jobscripts/.
    "short_starts",
    "recoveries.csv",
};

// Returns the name of the file that a temporary file replaces. A process that dies leaves temporary
// files behind.
std::string_view without_new(std::string_view name) {
  if (name.ends_with(".new")) name.remove_suffix(4);
  return name;
}

// Returns the name of the file whose damaged copy is history.csv.damaged, history.csv.damaged-2,
// ...
std::string_view without_damaged(std::string_view name) {
  constexpr std::string_view damaged = ".damaged";
  const auto at = name.rfind(damaged);
  if (at == name.npos) return name;
  const auto rest = name.substr(at + damaged.size());
  return rest.empty() || (rest[0] == '-' && number_in<int>(rest.substr(1))) ? name.substr(0, at)
                                                                            : name;
}

bool is_probe(std::string_view name) {
  constexpr std::string_view begin = ".probe-";
  return name.starts_with(begin) && number_in<int>(name.substr(begin.size()));
}

bool is_file_of_run(std::string_view name) {
  return is_probe(name) || is_lock_left(name) ||
         std::ranges::find(files_in_run, without_damaged(without_new(name))) != files_in_run.end();
}

bool is_file_of_checkpoint(std::string_view name) {
  if (name == manifest_name || name == master_name || name == tokenizer_name) return true;
  constexpr std::string_view begin = "rank-", end = ".h5";
  if (!name.starts_with(begin) || !name.ends_with(end)) return false;
  const auto rank =
      number_in<int>(name.substr(begin.size(), name.size() - begin.size() - end.size()));
  return rank && name == shard_name(*rank);
}

bool is_trace(std::string_view name) {
  return name.starts_with("steps-") && without_new(name).ends_with(".json");
}

bool is_event_file(std::string_view name) {
  return name.starts_with(event_file_begin);
}

// Returns true for a folder, and false for a link to a folder.
bool is_folder(const fs::path& path) {
  std::error_code e;
  return fs::symlink_status(path, e).type() == fs::file_type::directory;
}
bool is_link(const fs::path& path) {
  std::error_code e;
  return fs::symlink_status(path, e).type() == fs::file_type::symlink;
}

// Sorts the entries of `folder`. Regular files for which is_file() is true are the run's own.
// inner() handles all other entries, and those for which it returns false are foreign.
template <class IsFile, class Inner>
void add_entries(RunFiles& files, const fs::path& folder, const IsFile& is_file,
                 const Inner& inner) {
  for (const auto& path : entries_of(folder)) {
    const auto name = path.filename().string();
    if (is_file(name) && !is_folder(path) && !is_link(path))
      files.own.push_back(path);
    else if (!inner(path, name))
      files.foreign.push_back(path);
  }
}

bool add_nothing(const fs::path&, std::string_view) {
  return false;
}

bool add_checkpoint(RunFiles& files, const fs::path& path) {
  if (!is_folder(path)) return false;
  add_entries(files, path, is_file_of_checkpoint,
              [&](const fs::path& draft, std::string_view name) {
                if (name != ".repair" || !is_folder(draft)) return false;
                add_entries(files, draft, is_file_of_checkpoint, add_nothing);
                files.own.push_back(draft);
                return true;
              });
  files.own.push_back(path);
  return true;
}

bool is_no_file(std::string_view) {
  return false;
}

// Adds a folder that a run creates in its directory. Returns false for any other folder. Users move
// these folders to other disks and leave a link, which is kept.
bool add_folder(RunFiles& files, const fs::path& path, std::string_view name) {
  std::error_code e;
  if (!fs::is_directory(path, e)) return false;
  if (name == "checkpoints")
    add_entries(files, path, is_no_file, [&](const fs::path& entry, std::string_view its_name) {
      return is_checkpoint_entry(its_name) && add_checkpoint(files, entry);
    });
  else if (name == "trace")
    add_entries(files, path, is_trace, add_nothing);
  else if (name == "tensorboard")
    add_entries(files, path, is_event_file, add_nothing);
  else if (name == folder_of_sets)
    add_entries(
        files, path,
        [](auto its_name) { return is_table_of_set(without_damaged(without_new(its_name))); },
        add_nothing);
  else
    return false;
  if (!is_link(path)) files.own.push_back(path);
  return true;
}

// Returns the metadata of a checkpoint, or nothing if the checkpoint cannot be read.
std::optional<CheckpointMeta> meta_of(const fs::path& checkpoint) {
  try {
    return CheckpointReader(checkpoint).meta();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

RunFiles files_of_run(const fs::path& run) {
  RunFiles files;
  for (const auto& path : entries_of(run)) {
    const auto name = path.filename().string();
    const bool is_file = is_file_of_run(name) && !is_folder(path);
    if (is_file) files.own.push_back(path);
    const bool own = is_file || add_folder(files, path, name);
    (own ? files.entries : files.others).push_back(path);
  }
  return files;
}

void require_no_foreign(const fs::path& run, const RunFiles& files) {
  const auto refuse = [](const fs::path& path, std::string_view what) {
    fail(
        "--overwrite removes only files that the run wrote, but {} {}. Nothing was removed: move "
        "that path elsewhere, or choose another --run-dir",
        path.string(), what);
  };
  if (!files.foreign.empty()) refuse(files.foreign[0], "is not one of them");
  std::string first;
  for (const auto& [directory, step] : list_checkpoints(run / "checkpoints")) {
    const auto meta = meta_of(directory);
    if (!meta) continue;
    if (meta->step != step) refuse(directory, fmt::format("is a copy of step {}", meta->step));
    if (meta->run.empty()) continue;
    if (first.empty()) first = meta->run;
    if (meta->run != first)
      refuse(directory, "belongs to another run than the earlier checkpoints");
  }
}

}  // namespace trireme
