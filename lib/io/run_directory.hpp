#pragma once
// The directory of a run: how an existing directory is handled, and the small files of a run.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/io/run_tables.hpp"

namespace trireme {

class RunLock;

// Handling of a directory that already contains a run.
enum class Existing : std::uint8_t {
  // Throw an Error that names the user's two options.
  refuse,
  // The caller saw no run in the directory. Throw an Error that says that another process has
  // started one in the meantime.
  absent,
  // Continue the run in the directory.
  restart,
  // Remove everything that the earlier run wrote.
  overwrite
};

// One start of a batch job, and the command that the job ran in a run directory.
struct JobStart {
  // Id of the job (launch::job_id). Empty if there is no job.
  std::string job;
  // Number of restarts of the job (launch::restart_count).
  int restart = 0;
  std::string command;
  // Number of earlier launches since the job started (launch::recovery_count).
  int recovery = 0;
  bool operator==(const JobStart&) const = default;
  // Returns true if this is a later start of the same job.
  bool is_after(const JobStart& earlier) const {
    return !job.empty() && job == earlier.job &&
           std::pair(restart, recovery) > std::pair(earlier.restart, earlier.recovery);
  }
  // Returns true if this is a later start of the same job with the same command.
  bool follows(const JobStart& earlier) const {
    return is_after(earlier) && command == earlier.command;
  }
};

// Status of a run, which is running or has ended. Rank 0 writes it to outcome.json.
struct Outcome {
  // "running", "done", "stopped" or "failed".
  std::string status;
  std::int64_t step = 0;
  std::string exit_reason;
  // Path of the last good checkpoint. Empty if there is none.
  std::string last_good_checkpoint;
  // Kind of machine. Results in exact modes depend on it. Empty if unknown.
  std::string machine{};
  // The newest job start that began to train.
  JobStart start{};
  bool operator==(const Outcome&) const = default;
};

// Writes outcome.json in the run directory `run`. This process, or another rank of its job, must
// hold the directory's lock. Throws Error if the file cannot be written. If the lock no longer
// contains `lock_text`, calls record_lost_lock() and throws Error.
void write_outcome(const std::filesystem::path& run, const std::string& lock_text, const Outcome&);
// Records that this process lost the lock. If the lock was removed and no process holds it,
// replaces the status "running" in outcome.json by "failed", with this reason.
void record_lost_lock(const std::filesystem::path& run, const std::string& reason);
// Reads outcome.json. Returns nullopt if outcome.json is missing or unreadable.
std::optional<Outcome> read_outcome(const std::filesystem::path& run);

// A run directory that this process has locked.
class RunDirectory {
 public:
  // Creates the directory if it is missing, checks that it is writable, and locks it against other
  // processes for the lifetime of the object. Throws Error if that fails. Throws StoppedWaiting if
  // `stop` returns true while the constructor waits for the lock. Files of an earlier run are not
  // changed.
  RunDirectory(
      std::filesystem::path, Existing, const std::function<bool()>& stop = [] { return false; });
  // Removes the files of an earlier run, by name, for Existing::overwrite. If the run's folders
  // contain other files, throws Error and removes nothing.
  void remove_earlier_run() const;

  // lock_text() returns the text of the lock, by which other ranks recognize it. require_lock()
  // throws Error if another process has taken over the lock. Any thread may call these functions.
  const std::string& lock_text() const;
  void require_lock() const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path log() const { return path_ / "log"; }
  std::filesystem::path history() const { return path_ / "history.csv"; }
  std::filesystem::path evaluation(std::string_view set) const {
    return evaluation_table(path_, set);
  }
  std::filesystem::path digests() const { return path_ / "digests.csv"; }
  std::filesystem::path routing() const { return path_ / "routing.csv"; }
  std::filesystem::path skipped() const { return path_ / "skipped.csv"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path trace() const { return path_ / "trace"; }
  std::filesystem::path events() const { return path_ / "tensorboard"; }

  // Writes effective.toml.
  void write_deck(std::string_view effective_deck) const;
  // Writes outcome.json. Throws Error if the file cannot be written or if the lock has been lost.
  void write_outcome(const Outcome&) const;
  // Reads outcome.json. Returns nullopt if outcome.json is missing or unreadable.
  std::optional<Outcome> read_outcome() const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<RunLock> lock_;
};

}  // namespace trireme
