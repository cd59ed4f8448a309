#include "lib/io/memory_copies.hpp"

#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/checkpoint_save.hpp"
#include "lib/keys/value.hpp"
#include "lib/launch/batch_job.hpp"

namespace trireme {

namespace fs = std::filesystem;

std::optional<CopyOwner> read_copy_owner(const fs::path& run) {
  const auto path = run / copy_owner_name;
  if (!is_there(path)) return {};
  const auto json = parse_object(read_text(path), path.string());
  try {
    CopyOwner owner{JsonFields{json}.text("run"), JsonFields{json}.text("start")};
    // They become parts of paths that are removed.
    require(is_plain_name(owner.run) && is_plain_name(owner.start), "its names are not plain");
    return owner;
  } catch (const Error& e) {
    fail("{} is damaged: {}", path.string(), e.what());
  }
}

void write_copy_owner(const fs::path& run, const CopyOwner& owner) {
  const OrderedJson json = {{"run", owner.run}, {"start", owner.start}};
  replace_atomically(run / copy_owner_name, json.dump(1) + "\n");
}

void remove_copy_owner(const fs::path& run) {
  remove_path(run / copy_owner_name);
}

fs::path memory_root(const std::string& test_node) {
  const char* const given = std::getenv("TRIREME_MEMORY_DIR");
  fs::path base = "/dev/shm";
  if (given && *given) {
    try {
      base = expand_environment(given);
    } catch (const Error& e) {
      fail("TRIREME_MEMORY_DIR: {}", e.what());
    }
    require(base.is_absolute(), "TRIREME_MEMORY_DIR = \"{}\" is not an absolute path", given);
  }
  return base / test_node / fmt::format("trireme-{}", ::getuid());
}

bool is_in_memory(fs::path directory) {
  struct statfs s {};
  while (::statfs(directory.c_str(), &s) != 0) {
    if (errno != ENOENT || !directory.has_relative_path()) return false;
    directory = directory.parent_path();
  }
  constexpr auto tmpfs = 0x01021994L, ramfs = 0x858458f6L;
  return s.f_type == tmpfs || s.f_type == ramfs;
}

void make_memory_root(const fs::path& root) {
  make_directory(root.parent_path());
  if (::mkdir(root.c_str(), 0700) != 0 && errno != EEXIST) fail_errno("create", root, errno);
  struct stat s {};
  if (::lstat(root.c_str(), &s) != 0) fail_errno("access", root, errno);
  require(S_ISDIR(s.st_mode) && s.st_uid == ::getuid(),
          "{} is not a directory of this user: remove it, or set TRIREME_MEMORY_DIR to another "
          "directory",
          root.string());
}

fs::path copies_of(const fs::path& root, const CopyOwner& owner, int leader) {
  const auto job = launch::job_id();
  require(job.empty() || is_plain_name(job), "the job id \"{}\" cannot be a file name", job);
  return root / (job.empty() ? "local" : job) / owner.run / owner.start /
         fmt::format("node-{}", leader);
}

fs::path partial_copy(const fs::path& copies, std::int64_t step) {
  return hidden_path(copies, step, partial_suffix);
}

static fs::path spare_of(const fs::path& copies) {
  return copies / ".spare";
}

void begin_copy(const fs::path& copies, std::int64_t step) {
  const auto partial = partial_copy(copies, step);
  if (is_there(spare_of(copies))) {
    rename_path(spare_of(copies), partial);
    remove_path(partial / copy_record_name);
    remove_path(partial / tokenizer_name);
  }
  make_directory(partial);
}

// The files are only in memory, so nothing is synced to a disk.
void add_copy_record(const fs::path& partial, std::string_view record, std::string_view tokenizer) {
  if (!tokenizer.empty()) write_new(partial / tokenizer_name, tokenizer);
  write_new(partial / copy_record_name, record);
}

void publish_copy(const fs::path& copies, std::int64_t step) {
  rename_path(partial_copy(copies, step), copies / checkpoint_name(step));
}

// Hides a copy before its files are removed one by one.
static void remove_hidden(const fs::path& directory) noexcept {
  std::error_code e;
  try {
    const auto doomed = directory.parent_path() /
                        fmt::format(".{}{}", directory.filename().string(), removed_suffix);
    fs::remove_all(doomed, e);
    fs::rename(directory, doomed, e);
    fs::remove_all(e ? directory : doomed, e);
  } catch (...) {  // no memory for the name: the end of the job removes the files
  }
}

void drop_copy(const fs::path& copies, std::int64_t step) noexcept {
  std::error_code e;
  try {
    remove_hidden(copies / checkpoint_name(step));
    fs::remove_all(partial_copy(copies, step), e);
  } catch (...) {
  }
}

void retire_other_copies(const fs::path& copies, std::int64_t step) noexcept {
  try {
    for (const auto& info : list_checkpoints(copies)) {
      if (info.step == step) continue;
      std::error_code failed;  // for example because there is a spare
      fs::rename(info.directory, spare_of(copies), failed);
      if (failed) remove_hidden(info.directory);
    }
  } catch (...) {  // the next copy reports that there is no space
  }
}

// Returns the directories of a start of a run, one for each job.
static std::vector<fs::path> directories_of(const fs::path& root, const CopyOwner& owner) {
  std::vector<fs::path> all;
  if (!is_there(root)) return all;
  for (const auto& job : entries_of(root)) {
    const auto directory = job / owner.run / owner.start;
    std::error_code e;
    if (fs::is_directory(directory, e)) all.push_back(directory);
  }
  return all;
}

std::vector<HeldCopy> held_copies(const fs::path& root, const CopyOwner& owner) {
  std::vector<HeldCopy> all;
  for (const auto& directory : directories_of(root, owner))
    for (const auto& node : entries_of(directory))
      for (const auto& info : list_checkpoints(node)) all.push_back({info.step, info.directory});
  return all;
}

double bytes_of_copies(const fs::path& root, const CopyOwner& owner) {
  double bytes = 0;
  std::error_code e;
  for (const auto& directory : directories_of(root, owner))
    for (fs::recursive_directory_iterator it(directory, e), end; !e && it != end; it.increment(e)) {
      std::error_code unknown;  // the size of a directory is unknown
      const auto size = it->is_regular_file(unknown) ? it->file_size(unknown) : 0;
      if (!unknown) bytes += static_cast<double>(size);
    }
  return bytes;
}

void remove_copies(const fs::path& root, const CopyOwner& owner) noexcept {
  std::error_code e;
  try {
    for (const auto& directory : directories_of(root, owner)) {
      // Another rank may remove the same files, which may end this rank's removal early.
      for (int tries = 0; tries < 3 && fs::exists(directory, e); ++tries)
        fs::remove_all(directory, e);
      ::rmdir(directory.parent_path().c_str());  // stays if it is not empty
    }
  } catch (...) {  // the end of the job removes the files
  }
}

}  // namespace trireme
