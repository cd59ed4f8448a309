#pragma once
// The roll call of a job that hangs: rank 0 asks all ranks what they wait for, and says who waits
// for what and who does not answer. A rank answers from within its own waits, so one that computes,
// is stopped or has died stays silent. One thread at a time, as all of MPI.
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

// What a rank waits for: "gather of blocks.3, microbatch 2", and how far that is.
struct Wait {
  std::string what, state;
};

// Where a rank runs.
struct Process {
  std::string host;
  int id = 0;
};

class RollCall {
 public:
  // Collective over the ranks of `host`, which carries nothing else; not pretended.
  explicit RollCall(std::unique_ptr<transport::HostTransport> host);
  ~RollCall();
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;

  int rank() const { return host_->rank(); }
  // By rank; elsewhere than on rank 0 its alone.
  std::span<const Process> processes() const { return processes_; }

  // Called now and then by a rank that waits: answers a question. True on rank 0: another rank says
  // that it has waited too long.
  bool poll(const std::function<Wait()>& own, bool overdue);
  // To rank 0: this rank has waited too long; what it waited for has come after all.
  void alarm(const Wait& own);
  void withdraw() noexcept;
  // Has rank 0 asked since the alarm?
  bool heard() const { return heard_; }

  // On rank 0: asks all ranks; answers then come with poll().
  void ask();
  bool everyone_answered() const;
  // On rank 0: does one that answered wait for too long?
  bool anyone_overdue() const;
  // On rank 0: who waits for what and who has not answered, a line each.
  std::string account(const Wait& own) const;

 private:
  enum class Meaning : std::int32_t { question, answer, alarm, withdrawal };
  struct Message {
    Meaning meaning{};
    std::int32_t question = 0;  // the number of rank 0's last question that the sender knows
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
  std::deque<Leaving> leaving_;  // its elements stay where they are
  bool heard_ = false;
  // On rank 0, by rank: elsewhere nothing is kept of all ranks.
  std::vector<std::uint8_t> alarmed_, answered_, overdue_;
  std::vector<Wait> answers_;
};

}  // namespace trireme::engine
