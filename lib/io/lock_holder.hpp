#pragma once
// The process that holds a run directory's lock, as described in the lock file.
#include <optional>
#include <string>

namespace trireme {

// A process that holds a lock. Its text in the lock file is "job 120_3 restart 2 process 4711 on n3
// of 8f..-4026531836 id 9c.. recovery 1". A recovery of 0 is left out. Older versions do not read
// the recovery.
struct LockHolder {
  // Id of the batch job. "-" if there is no job.
  std::string job = "-";
  // Number of earlier starts of the job.
  int restart = 0;
  // Number of earlier launches of the program since the job started (launch::recovery_count).
  int recovery = 0;
  int process = 0;
  std::string host = "-";
  // Boot id and PID namespace of the process. "-" if unknown.
  std::string pid_space = "-";
  // A unique id, which is drawn when the process starts.
  std::string id = "-";
  bool operator==(const LockHolder&) const = default;
};
std::string text_of(const LockHolder&);
// Returns a short description for messages, for example "job 120_3 restart 2 process 4711 on n3".
std::string short_text_of(const LockHolder&);
// Parses the text of a lock file. Returns nullopt if the text was not written by any version of
// this program. Earlier versions wrote the text of short_text_of().
std::optional<LockHolder> parse_lock_holder(const std::string& text);
// Returns true if both holders are on the same host and in the same PID namespace, so that their
// process ids can be compared.
bool share_pids(const LockHolder&, const LockHolder&);

}  // namespace trireme
