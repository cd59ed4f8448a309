#include "lib/corpus/part_folder.hpp"

#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/random_id.hpp"
#include "lib/corpus/part_file.hpp"

namespace trireme {

namespace fs = std::filesystem;

constexpr const char* part_ending = ".part";
constexpr const char *id_name = "id", *lock_name = "lock", *end_name = "end";

std::string part_name(const std::string& key) {
  return key + part_ending;
}

bool is_finished_part(const fs::path& path) {
  return path.extension() == part_ending;
}

fs::path part_folder_of(const fs::path& output) {
  constexpr std::size_t most_of_name = 200;  // a name may have 255 bytes in total
  return output.parent_path() /
         fmt::format(".{}.parts", output.filename().string().substr(0, most_of_name));
}

PartFolder::PartFolder(const fs::path& output) : path_(part_folder_of(output)), id_(random_id()) {
  make_directory(path_);
  lock_ = PosixFile::open_if_there(path_ / lock_name);
  if (!lock_) lock_ = PosixFile::create(path_ / lock_name);
  require(::flock(lock_->descriptor(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK,
          "another job writes {}: wait until it ends, or give another name", output.string());
  for (const auto& entry : entries_of(path_))
    if (is_unfinished_part(entry)) remove_path(entry);
  remove_path(path_ / end_name);
  replace_atomically(path_ / id_name, id_);
}

void PartFolder::remove() {
  lock_.reset();  // a network file system would keep an open file
  remove_tree(path_);
}

void PartFolder::keep_parts() noexcept try {
  const auto finished = std::ranges::count_if(entries_of(path_), is_finished_part);
  if (finished == 0) return remove();
  log_info("the same command continues with {} in {}. To give up the job, remove this folder",
           counted(finished, "finished part"), path_.string());
} catch (const std::exception&) {  // the error that ended the job matters more
}

void require_shared_folder(const fs::path& folder, const std::string& id) {
  const auto file = folder / id_name;
  require(is_there(file) && read_text(file) == id,
          "the folder {} on this node is not the folder that rank 0 has created: write the output "
          "to a file system that all nodes share",
          folder.string());
}

void announce_end(const fs::path& folder) noexcept {
  // If the file cannot be written, the other ranks find out when they have finished their parts.
  try {
    std::ofstream(folder / end_name) << '\n';
  } catch (...) {
  }
}

bool end_is_announced(const fs::path& folder) {
  return is_there(folder / end_name);
}

}  // namespace trireme
