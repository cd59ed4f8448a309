#include "lib/io/checkpoint_choice.hpp"

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/io/shard_file.hpp"

namespace trireme {

namespace fs = std::filesystem;

CheckpointChoice::CheckpointChoice(fs::path given) : given_(std::move(given)) {}

void CheckpointChoice::skip(const fs::path& checkpoint, const std::string& damage) {
  if (damaged_.insert(checkpoint).second) log_warning("skipped: {}", damage);
}

fs::path CheckpointChoice::find() {
  if (fs::exists(given_ / manifest_name)) return given_;
  require(!fs::exists(given_ / shard_name(0)),
          "{} is damaged: {} is missing -- `trireme inspect {} --repair` restores it",
          given_.string(), manifest_name, given_.string());
  const auto checkpoints = given_ / "checkpoints";
  require(fs::is_directory(checkpoints), "{}", not_a_checkpoint(given_));
  const auto newest = newest_intact(checkpoints, Check::sizes, damaged_);
  for (const auto& s : newest.skipped) skip(s.directory, s.damage);
  if (newest.found) return newest.found->directory;
  require(!damaged_.empty(),
          "{} holds no checkpoint: the run has not saved one yet. Wait for the first checkpoint, "
          "or create the file {} to make the run save one after the current step",
          checkpoints.string(), (given_ / "checkpoint_now").string());
  fail("{} holds no intact checkpoint: `trireme inspect {} --verify` says what is damaged",
       checkpoints.string(), given_.string());
}

bool CheckpointChoice::reject(const fs::path& checkpoint, std::string_view message) {
  if (checkpoint == given_) return false;
  if (!fs::exists(checkpoint / manifest_name) && removals_left_ > 0) {
    --removals_left_;
    log_info("{} was removed while this process opened it: looking for a newer checkpoint",
             checkpoint.string());
    return true;
  }
  // An error that does not name the checkpoint, such as a wrong option, needs no check of all
  // files.
  if (message.find(checkpoint.string()) == message.npos) return false;
  const auto damage = damage_of(checkpoint, Check::hashes);
  if (!damage) return false;
  skip(checkpoint, *damage);
  return true;
}

fs::path find_checkpoint(const fs::path& given) {
  return CheckpointChoice(given).find();
}

}  // namespace trireme
