#pragma once
// The directory of a run: how an existing directory is treated, and its small files.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

class RunLock;

// What happens if the directory already contains a run.
enum class Existing : std::uint8_t {
  // Throw an Error that names the two options.
  refuse,
  // There was no run before: throw an Error that another process has meanwhile begun one.
  absent,
  // The run continues in the directory.
  restart,
  // Everything that a run writes may be removed.
  overwrite
};

// One start of a batch job, and the command that it ran in a run directory.
struct JobStart {
  // launch::job_id(). Empty without a job.
  std::string job;
  // launch::restart_count().
  int restart = 0;
  std::string command;
  bool operator==(const JobStart&) const = default;
  // Returns true if this is a later start of the same job with the same command.
  bool follows(const JobStart& earlier) const {
    return !job.empty() && job == earlier.job && restart > earlier.restart &&
           command == earlier.command;
  }
};

// How a run ended, or that it is running. Rank 0 writes this to outcome.json.
struct Outcome {
  // "running", "done", "stopped" or "failed".
  std::string status;
  std::int64_t step = 0;
  std::string exit_reason;
  // Empty if there is none.
  std::string last_good_checkpoint;
  // Kind of machine, on which the exact results depend. Empty if unknown.
  std::string machine{};
  // The newest start that began to train.
  JobStart start{};
  bool operator==(const Outcome&) const = default;
};

// Writes outcome.json in the run directory `run`. This process, or another rank of its job, must
// hold the directory's lock. Throws Error if the file cannot be written or if the lock no longer
// contains `lock_text`, in which case record_lost_lock() is called.
void write_outcome(const std::filesystem::path& run, const std::string& lock_text, const Outcome&);
// For a process that lost the lock: if the lock was removed and nobody has it, replaces the status
// "running" in outcome.json with "failed", for this reason.
void record_lost_lock(const std::filesystem::path& run, const std::string& reason);
// Reads outcome.json. Returns nullopt if outcome.json is missing or unreadable.
std::optional<Outcome> read_outcome(const std::filesystem::path& run);

// A run directory that this process has locked.
class RunDirectory {
 public:
  // Creates the directory if it is missing, checks that it is writable, and locks it against other
  // processes for the lifetime of the object. Throws Error if that fails. Throws StoppedWaiting if
  // `stop` returns true while it waits for the lock. Files of an earlier run are not changed.
  RunDirectory(
      std::filesystem::path, Existing, const std::function<bool()>& stop = [] { return false; });
  // Removes the files of an earlier run, by name, for Existing::overwrite. Throws Error, before
  // anything is removed, if the run's folders contain other files.
  void remove_earlier_run() const;

  // `lock_text` returns the text of the lock, by which other ranks recognize it. `require_lock`
  // throws Error if another process has taken over the lock. Any thread may call them.
  const std::string& lock_text() const;
  void require_lock() const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path log() const { return path_ / "log"; }
  std::filesystem::path history() const { return path_ / "history.csv"; }
  std::filesystem::path evaluation() const { return path_ / "evaluation.csv"; }
  std::filesystem::path digests() const { return path_ / "digests.csv"; }
  std::filesystem::path routing() const { return path_ / "routing.csv"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path trace() const { return path_ / "trace"; }
  std::filesystem::path events() const { return path_ / "tensorboard"; }

  // Writes effective.toml.
  void write_deck(std::string_view effective_deck) const;
  // Writes outcome.json. Throws Error also if the lock is lost.
  void write_outcome(const Outcome&) const;
  // Reads outcome.json. Returns nullopt if outcome.json is missing or unreadable.
  std::optional<Outcome> read_outcome() const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<RunLock> lock_;
};

}  // namespace trireme
