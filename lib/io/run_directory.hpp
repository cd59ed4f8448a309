#pragma once
// The directory of a run: how an existing one is treated, and its small files.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

class RunLock;

enum class Existing : std::uint8_t {
  refuse,    // an Error that names the two options
  absent,    // there was none: an Error that another process began one meanwhile
  restart,   // the run continues in it
  overwrite  // everything that a run writes may be removed
};

// Which start of which batch job ran which command in a run directory.
struct JobStart {
  std::string job;  // launch::job_id(); empty: none
  int restart = 0;  // launch::restart_count()
  std::string command;
  bool operator==(const JobStart&) const = default;
  // Is it a later start of the same job, for the same command?
  bool follows(const JobStart& earlier) const {
    return !job.empty() && job == earlier.job && restart > earlier.restart &&
           command == earlier.command;
  }
};

// How a run ended, or "running". Written by rank 0.
struct Outcome {
  std::string status;  // running, done, stopped, failed
  std::int64_t step = 0;
  std::string exit_reason;
  std::string last_good_checkpoint;  // empty: none
  std::string machine{};             // its kind, on which the bits depend; empty: not known
  JobStart start{};                  // the newest that came to train
  bool operator==(const Outcome&) const = default;
};

// Writes outcome.json of the run directory `run`, whose lock this process or another rank of its
// job has. Error, also where the lock does not say `lock_text` any more.
void write_outcome(const std::filesystem::path& run, const std::string& lock_text, const Outcome&);
std::optional<Outcome> read_outcome(const std::filesystem::path& run);

class RunDirectory {
 public:
  // Creates it when missing, checks that it can be written and locks it against other processes
  // while this lives. Error otherwise, StoppedWaiting where `stop` said so while it waited for a
  // lock. Nothing of an earlier run is touched.
  RunDirectory(
      std::filesystem::path, Existing, const std::function<bool()>& stop = [] { return false; });
  // For Existing::overwrite, after all checks: removes what a run wrote, by name. Error, before
  // anything is removed, where something else lies in its folders.
  void remove_earlier_run() const;

  // What the lock says, by which other ranks know it; Error where it says something else now, as
  // another process took it over. For any thread.
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

  void write_deck(std::string_view effective_deck) const;  // effective.toml
  void write_outcome(const Outcome&) const;     // outcome.json; Error without the lock, too
  std::optional<Outcome> read_outcome() const;  // none when missing or unreadable

 private:
  std::filesystem::path path_;
  std::shared_ptr<RunLock> lock_;
};

}  // namespace trireme
