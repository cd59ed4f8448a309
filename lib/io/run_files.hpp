#pragma once
// Distinguishes the files that runs write into a run directory, by name, from all other files.
#include <filesystem>
#include <vector>

namespace trireme {

// The entries of a run directory.
struct RunFiles {
  // Files that runs write, and their folders. The contents of a folder precede the folder, so that
  // the entries can be removed in this order. Nothing else is removed.
  std::vector<std::filesystem::path> own;
  // Other entries in the folders that a run creates, such as renamed copies of checkpoints, or
  // links.
  std::vector<std::filesystem::path> foreign;
  // Other entries at the top level of the run directory.
  std::vector<std::filesystem::path> others;
  // Top-level entries of the run directory that belong to a run. A folder that is a link is not
  // removed.
  std::vector<std::filesystem::path> entries;
};

// Lists the entries of a run directory. Throws Error if the directory cannot be read.
RunFiles files_of_run(const std::filesystem::path& run);

// Throws Error if the directory contains foreign files or checkpoints of two runs. The message
// names a file.
void require_no_foreign(const std::filesystem::path& run, const RunFiles&);

}  // namespace trireme
