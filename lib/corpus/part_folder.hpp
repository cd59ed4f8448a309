#pragma once
// The hidden folder next to a token file in which the ranks of a job put the parts of the file. The
// folder stays if the job is killed, so that the next job continues. It is removed when the token
// file is complete.
#include <filesystem>
#include <optional>
#include <string>

#include "lib/base/posix_file.hpp"

namespace trireme {

// Returns the file name of the finished part with this key.
std::string part_name(const std::string& key);
// Returns true if the path is that of a finished part.
bool is_finished_part(const std::filesystem::path&);

// Returns the folder of a token file: ".NAME.parts".
std::filesystem::path part_folder_of(const std::filesystem::path& output);

// The folder, as rank 0 owns it.
class PartFolder {
 public:
  // Creates the folder and locks it. Removes what dead ranks left unfinished. Throws Error if
  // another job has the lock. On file systems without flock, there is no lock. Two jobs then still
  // write a correct file, or fail because the other job removes the folder.
  explicit PartFolder(const std::filesystem::path& output);

  const std::filesystem::path& path() const { return path_; }
  // Random id, which the folder contains. The other ranks read it to check that they share the
  // folder's file system.
  const std::string& id() const { return id_; }
  // Removes the folder and everything in it.
  void remove();
  // Logs that the next job uses the finished parts. If there is none, removes the folder.
  void keep_parts() noexcept;

 private:
  std::filesystem::path path_;
  std::string id_;
  std::optional<PosixFile> lock_;
};

// Throws Error unless rank 0 has created the folder with this id.
void require_shared_folder(const std::filesystem::path& folder, const std::string& id);

// announce_end() asks all ranks to begin no further part. end_is_announced() returns true if any
// rank has asked.
void announce_end(const std::filesystem::path& folder) noexcept;
bool end_is_announced(const std::filesystem::path& folder);

}  // namespace trireme
