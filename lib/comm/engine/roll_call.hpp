#pragma once
// Diagnosis of jobs that hang. Rank 0 asks all ranks what they wait for, then reports which ranks
// wait for what and which do not answer. A rank answers only during its own waits, so a rank that
// computes, is stopped or has died stays silent. Only one thread at a time may use a RollCall, as
// with all MPI calls here.
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/comm/transport/host_transport.hpp"

namespace trireme::engine {

// Description of a wait: the operation that a rank waits for, such as "gather of blocks.3,
// microbatch 2", and its progress.
struct Wait {
  std::string what, state;
};

// Host and process id of a rank.
struct Process {
  std::string host;
  int id = 0;
};

// One rank's part in the diagnosis of a hanging job.
class RollCall {
 public:
  // Collects the host and process id of each rank. Collective over the ranks of `host`. `host` must
  // not be pretended and must not be used for anything else.
  explicit RollCall(std::unique_ptr<transport::HostTransport> host);
  ~RollCall();
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;

  int rank() const { return host_->rank(); }
  // Returns the processes, indexed by rank, on rank 0. On other ranks, only the entry of rank 0
  // exists.
  std::span<const Process> processes() const { return processes_; }

  // Handles messages that have arrived. A waiting rank calls poll() regularly. If rank 0 has asked,
  // this rank answers with `own`, its wait, and `overdue`, which says that this rank has waited too
  // long. On rank 0, returns true if another rank has reported that it has waited too long.
  bool poll(const std::function<Wait()>& own, bool overdue);
  // Reports to rank 0 that this rank has waited too long. `own` describes the wait.
  void alarm(const Wait& own);
  // Withdraws the alarm because the wait has ended.
  void withdraw() noexcept;
  // Returns true if rank 0 has asked this rank since the last alarm().
  bool heard() const { return heard_; }

  // Asks all ranks what they wait for. Their answers arrive in poll(). Called on rank 0 only.
  void ask();
  // Returns true if all ranks have answered the last question. Called on rank 0 only.
  bool everyone_answered() const;
  // Returns true if any rank that answered has waited too long. Called on rank 0 only.
  bool anyone_overdue() const;
  // Returns a report about waiting ranks. It has one line for each operation that ranks wait for,
  // and one line for each rank that has not answered. `own` is the wait of rank 0. Called on rank 0
  // only.
  std::string account(const Wait& own) const;

 private:
  enum class Meaning : std::int32_t { question, answer, alarm, withdrawal };
  struct Message {
    Meaning meaning{};
    // Number of the last question from rank 0 that the sender has received.
    std::int32_t question = 0;
    std::int32_t overdue = 0;
    std::array<char, 240> what{}, state{};
  };
  struct Leaving {
    Message message;
    transport::Transport::Request request{};
  };
  void send(int to, Meaning, const Wait& = {}, bool overdue = false);
  Message receive(int from);
  void note(std::size_t rank, const Message&);
  void forget_sent();

  std::unique_ptr<transport::HostTransport> host_;
  std::vector<Process> processes_;
  std::int32_t question_ = 0;
  std::deque<Leaving> leaving_;  // a deque, because MPI reads its elements in place
  bool heard_ = false;
  // Flags indexed by rank, on rank 0. Other ranks store nothing per rank.
  std::vector<std::uint8_t> alarmed_, answered_, overdue_;
  std::vector<Wait> answers_;
};

}  // namespace trireme::engine
