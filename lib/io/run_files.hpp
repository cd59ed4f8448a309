#pragma once
// What lies in a run directory: what runs write there, by name, and what they do not.
#include <filesystem>
#include <vector>

namespace trireme {

struct RunFiles {
  // Files, and folders after what lies in them: removed in this order, nothing else is removed.
  std::vector<std::filesystem::path> own;
  // In the folders that a run makes there: copies of checkpoints under another name, files of
  // others, links.
  std::vector<std::filesystem::path> foreign;
  // In the directory itself.
  std::vector<std::filesystem::path> others;
  // Those entries of the directory itself that are a run's. A folder that is a link stays.
  std::vector<std::filesystem::path> entries;
};

// Error where the directory cannot be read.
RunFiles files_of_run(const std::filesystem::path& run);

// Error, naming one, where there are foreign files, or checkpoints of two runs.
void require_no_foreign(const std::filesystem::path& run, const RunFiles&);

}  // namespace trireme
