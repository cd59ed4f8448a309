#pragma once
// Chooses the checkpoint that a command reads if the user names a run directory.
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

namespace trireme {

// Choice of a checkpoint for a command that reads weights. Reading checks every chunk against its
// hash, so reading a damaged checkpoint fails. The command then calls reject() and, if that returns
// true, starts again with the next choice.
class CheckpointChoice {
 public:
  // `given` must be a checkpoint directory or a run directory.
  explicit CheckpointChoice(std::filesystem::path given);

  // Returns `given` if it is a checkpoint directory. If it is a run directory, returns the newest
  // checkpoint that has complete files and has not been rejected, and logs a warning for each newer
  // checkpoint. Throws Error if there is no such checkpoint.
  std::filesystem::path find();
  // Reports that a command that reads `checkpoint`, the result of find(), failed with this message.
  // Returns true if find() may return another checkpoint. This requires that `given` is a run
  // directory, that the message is about the checkpoint, and that the checkpoint is damaged or has
  // been removed meanwhile. Logs a warning that names the damaged file.
  bool reject(const std::filesystem::path& checkpoint, std::string_view message);

 private:
  void skip(const std::filesystem::path& checkpoint, const std::string& damage);

  std::filesystem::path given_;
  // Damaged checkpoints for which a warning has been logged.
  std::set<std::filesystem::path> damaged_;
  int removals_left_ = 10;
};

// Returns the first choice for `given`, which is a checkpoint directory or a run directory.
std::filesystem::path find_checkpoint(const std::filesystem::path& given);

}  // namespace trireme
