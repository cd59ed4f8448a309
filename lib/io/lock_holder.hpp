#pragma once
// Who has the lock of a run directory, as its file says it.
#include <optional>
#include <string>

namespace trireme {

// A process that has a lock, as its file says it:
// "job 120_3 restart 2 process 4711 on n3 of 8f.. 4026531836 id 9c..".
struct LockHolder {
  std::string job = "-";  // "-": of none
  int restart = 0;        // starts of the job before this one
  int process = 0;
  std::string host = "-";
  std::string pid_space = "-";  // its boot id and PID namespace; "-": not known
  std::string id = "-";         // drawn at its start; no other has it
  bool operator==(const LockHolder&) const = default;
};
std::string text_of(const LockHolder&);
// "job 120_3 restart 2 process 4711 on n3", for messages.
std::string short_text_of(const LockHolder&);
// None for what no version wrote. Earlier versions wrote what short_text_of() says.
std::optional<LockHolder> parse_lock_holder(const std::string& text);
// Do the numbers of processes mean the same to both?
bool share_pids(const LockHolder&, const LockHolder&);

}  // namespace trireme
