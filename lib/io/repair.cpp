#include "lib/io/repair.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/io/checkpoint_save.hpp"
#include "lib/io/master_file.hpp"
#include "lib/io/shard_file.hpp"
#include "lib/io/shard_reader.hpp"

namespace trireme {

namespace fs = std::filesystem;

namespace {

struct Found {
  CheckpointMeta meta;
  std::vector<FileRecord> shards;
  std::optional<FileRecord> master, tokenizer;  // as the manifest has them
  bool manifest = false;                        // it was intact
};

// One that a shard contradicts is not; what cannot be read contradicts none.
bool is_contradicted(const fs::path& directory, const Manifest& manifest) {
  return std::ranges::any_of(manifest.files, [&](const FileRecord& file) {
    try {
      return file.rank >= 0 &&
             !contradiction_in(directory / file.name, manifest, file, Check::hashes).empty();
    } catch (const Error&) {
      return false;
    }
  });
}

std::optional<Manifest> intact_manifest(const fs::path& directory) {
  try {
    const auto path = directory / manifest_name;
    auto manifest = parse_manifest(read_text(path), path.string());
    if (is_contradicted(directory, manifest)) return {};
    return manifest;
  } catch (const Error&) {
    return {};
  }
}

Found by_manifest(const fs::path& directory, Manifest manifest) {
  Found found{std::move(manifest.meta), {}, {}, {}, true};
  for (auto& file : manifest.files) {
    if (file.name == master_name) {
      found.master = std::move(file);
    } else if (file.name == tokenizer_name) {
      found.tokenizer = std::move(file);
    } else {
      const auto problems = verify_file(directory, file, Check::hashes);
      require(problems.empty(), "{} cannot be repaired: {} -- use another checkpoint",
              directory.string(), problems.empty() ? "" : problems[0]);
      found.shards.push_back(std::move(file));
    }
  }
  return found;
}

std::vector<fs::path> shard_paths(const fs::path& directory) {
  auto paths = entries_of(directory);
  std::erase_if(paths, [](const fs::path& path) {
    const auto name = path.filename().string();
    return !name.starts_with("rank-") || !name.ends_with(".h5");
  });
  require(!paths.empty(), "{} contains no shards, so it cannot be repaired", directory.string());
  return paths;
}

// A shard that is missing altogether leaves a parameter without elements, or part of one.
void require_all_parameters(const fs::path& directory, const Found& found) {
  std::set<std::string> held;
  for (const auto& file : found.shards)
    for (const auto& s : file.slices) held.insert(s.slice.name);
  for (const auto& [name, count] : found.meta.updates)
    require(held.contains(name), "{} cannot be repaired: no shard holds {}", directory.string(),
            escaped(name));
}

Found by_shards(const fs::path& directory) {
  Found found;
  std::optional<Hash128> tokenizer;
  const auto without_extra = [](CheckpointMeta meta) {
    meta.extra = {};
    return meta;
  };
  for (const auto& path : shard_paths(directory)) {
    auto [record, file] = read_shard(path);
    if (!tokenizer) {
      found.meta = std::move(record.meta);
      tokenizer = record.tokenizer;
    } else {
      require(
          without_extra(record.meta) == without_extra(found.meta) && record.tokenizer == *tokenizer,
          "{} belongs to another checkpoint than {}", path.string(), found.shards[0].name);
    }
    found.shards.push_back(std::move(file));
  }
  require_all_parameters(directory, found);
  if (*tokenizer != hash128(std::string_view())) {
    FileRecord record;
    record.name = tokenizer_name;
    record.hash = *tokenizer;
    found.tokenizer = std::move(record);
  }
  return found;
}

// The tokenizer's bytes, from this checkpoint or one beside it.
std::string tokenizer_bytes(const fs::path& directory, Hash128 hash) {
  std::vector<fs::path> places{directory};
  std::error_code e;
  for (fs::directory_iterator it(directory.parent_path(), e), end; !e && it != end; it.increment(e))
    places.push_back(it->path());
  for (const auto& place : places) {
    try {
      auto bytes = read_text(place / tokenizer_name);
      if (hash128(bytes) == hash) return bytes;
    } catch (const Error&) {  // not there
    }
  }
  fail("{} cannot be repaired: copy the run's {} (XXH3-128 {}) into it and try again",
       directory.string(), tokenizer_name, to_string(hash));
}

bool is_intact(const fs::path& directory, const std::optional<FileRecord>& record) {
  return record && verify_file(directory, *record, Check::hashes).empty();
}

void put_in_place(const fs::path& from, const fs::path& to) {
  std::error_code e;
  if (fs::is_directory(to, e)) remove_tree(to);
  rename_path(from, to);
}

// What is missing, in a directory beside the old files; their names.
std::vector<std::string> write_draft(const fs::path& directory, const fs::path& draft,
                                     const Found& found, const std::string& tokenizer) {
  std::vector<std::string> made;
  make_directory(draft);
  auto master = found.master;
  if (!is_intact(directory, master)) {
    master = write_master(draft, found.meta.step, found.shards);
    made.emplace_back(master_name);
  }
  if (found.tokenizer && !is_intact(directory, found.tokenizer)) {
    write_new(draft / tokenizer_name, tokenizer);
    made.emplace_back(tokenizer_name);
  }
  if (!made.empty() || !found.manifest) {
    Manifest whole{found.meta, found.shards};
    whole.files.push_back(*master);
    if (found.tokenizer) whole.files.push_back(*found.tokenizer);
    write_new(draft / manifest_name, to_text(whole));
    made.emplace_back(manifest_name);
  }
  sync_directory(draft);
  return made;
}

}  // namespace

std::vector<std::string> repair_checkpoint(const fs::path& checkpoint) {
  std::error_code e;
  const auto directory = fs::canonical(checkpoint, e);
  require(!e && fs::is_directory(directory, e),
          "{} is not a checkpoint: there is no such directory", checkpoint.string());
  auto manifest = intact_manifest(directory);
  auto found = manifest ? by_manifest(directory, *std::move(manifest)) : by_shards(directory);
  const auto name = directory.filename().string();
  require(!name.starts_with("step-") || name == checkpoint_name(found.meta.step),
          "{} contains step {}: rename it to {} first", directory.string(), found.meta.step,
          checkpoint_name(found.meta.step));
  std::string tokenizer;
  if (found.tokenizer) {
    tokenizer = tokenizer_bytes(directory, found.tokenizer->hash);
    found.tokenizer->size = static_cast<std::int64_t>(tokenizer.size());
  }

  const auto draft = directory / ".repair";
  remove_tree(draft);
  std::vector<std::string> made;
  try {
    made = write_draft(directory, draft, found, tokenizer);
  } catch (...) {
    fs::remove_all(draft, e);
    throw;
  }
  for (const auto& file : made) {  // the manifest, which vouches for the others, comes last
    put_in_place(draft / file, directory / file);
    sync_directory(directory);
  }
  remove_tree(draft);
  const auto problems = CheckpointReader(directory).verify();
  require(problems.empty(), "{} is still damaged: {}", directory.string(),
          problems.empty() ? "" : problems[0]);
  return made;
}

}  // namespace trireme
