#pragma once
// Chooses the checkpoint that a command reads if the user names a run directory.
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

namespace trireme {

// The choice of a checkpoint by a command that reads weights. Every chunk that is read is checked
// against its hash, so that reading a damaged checkpoint fails. The command then calls reject()
// and, if that returns true, begins again with the next choice.
class CheckpointChoice {
 public:
  // `given` is a checkpoint or a run directory.
  explicit CheckpointChoice(std::filesystem::path given);

  // Returns `given` if it is a checkpoint directory. If it is a run directory, returns the newest
  // checkpoint with complete files that was not rejected, and logs a warning for each newer one.
  // Throws Error if there is none.
  std::filesystem::path find();
  // Call this if a command that reads `checkpoint`, which find() returned, failed with this
  // message. Returns true if find() may return another one: `given` is a run directory, the message
  // is about the checkpoint, and the checkpoint is damaged or was removed meanwhile. Logs a warning
  // that names the damaged file.
  bool reject(const std::filesystem::path& checkpoint, std::string_view message);

 private:
  void skip(const std::filesystem::path& checkpoint, const std::string& damage);

  std::filesystem::path given_;
  // Damaged checkpoints, about which a warning was logged.
  std::set<std::filesystem::path> damaged_;
  int removals_left_ = 10;
};

// Returns the first choice.
std::filesystem::path find_checkpoint(const std::filesystem::path& given);

}  // namespace trireme
