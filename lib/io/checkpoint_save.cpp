#include "lib/io/checkpoint_save.hpp"

#include <string_view>
#include <system_error>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/io/master_file.hpp"

namespace trireme {

namespace fs = std::filesystem;

std::string checkpoint_name(std::int64_t step) {
  return fmt::format("step-{:08}", step);
}

fs::path hidden_path(const fs::path& checkpoints, std::int64_t step, std::string_view suffix) {
  return checkpoints / fmt::format(".{}{}", checkpoint_name(step), suffix);
}

fs::path begin_save(const fs::path& checkpoints, std::int64_t step) {
  const auto partial = hidden_path(checkpoints, step, partial_suffix);
  require(is_there(checkpoints),
          "{} is gone: the run directory was removed or renamed during the run",
          checkpoints.string());
  remove_tree(partial);
  make_directory(partial);
  return partial;
}

FileRecord record_of_bytes(std::string_view name, std::span<const std::byte> bytes) {
  FileRecord record;
  record.name = name;
  record.size = std::ssize(bytes);
  record.hash = hash128(bytes);
  return record;
}

fs::path publish(const fs::path& checkpoints, const CheckpointMeta& meta,
                 std::vector<FileRecord> shards, const std::function<void()>& require_lock) {
  const auto partial = hidden_path(checkpoints, meta.step, partial_suffix);
  const auto master = write_master(partial, meta.step, shards);
  Manifest manifest{meta, std::move(shards)};
  manifest.files.push_back(master);
  if (!meta.tokenizer.empty()) {
    write_new(partial / tokenizer_name, meta.tokenizer);
    manifest.files.push_back(record_of_bytes(tokenizer_name, as_bytes(std::span(meta.tokenizer))));
  }
  const auto text = to_text(manifest);
  parse_manifest(text, "the new manifest");  // throws rather than publish what cannot be loaded
  write_new(partial / manifest_name, text);
  sync_directory(partial);
  if (require_lock) require_lock();

  // rename() does not replace a directory that is not empty. If the two directories cannot be
  // exchanged, the old one is renamed first. After a crash, the old one then has a name that
  // list_checkpoints() knows.
  const auto target = checkpoints / checkpoint_name(meta.step);
  const auto replaced = hidden_path(checkpoints, meta.step, replaced_suffix);
  const bool exists = is_there(target);
  if (exists && exchange_paths(partial, target)) {
    sync_directory(checkpoints);
    remove_tree(partial);
    return target;
  }
  remove_tree(replaced);
  if (exists) rename_path(target, replaced);
  try {
    rename_path(partial, target);
  } catch (const Error&) {
    if (exists) rename_path(replaced, target);
    throw;
  }
  sync_directory(checkpoints);
  if (exists) remove_tree(replaced);
  return target;
}

void abandon_save(const fs::path& checkpoints, std::int64_t step) noexcept {
  std::error_code ignored;
  try {
    fs::remove_all(hidden_path(checkpoints, step, partial_suffix), ignored);
  } catch (...) {  // no memory for the name: the next start removes the files
  }
}

fs::path save_checkpoint(const fs::path& checkpoints, const CheckpointMeta& meta,
                         std::span<const ParamSlice> slices, const SliceSource& source) {
  try {
    const auto partial = begin_save(checkpoints, meta.step);
    std::vector<FileRecord> shards;
    shards.push_back(write_shard(partial, 0, meta, slices, source));
    return publish(checkpoints, meta, std::move(shards));
  } catch (...) {
    abandon_save(checkpoints, meta.step);
    throw;
  }
}

}  // namespace trireme
