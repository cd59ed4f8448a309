#pragma once
// One operation in flight: its messages, and the conditions for its start.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "lib/comm/engine/collective_in_flight.hpp"
#include "lib/comm/engine/label.hpp"

namespace trireme::engine {

class Progress;
using transport::HostTransport;

// Whether an operation is a collective, a send or a receive.
enum class Pattern : std::uint8_t { collective, send, receive };

// Counts of called and completed operations in one sequence. Operations of one sequence run one
// after another, because their messages could otherwise be confused. A sequence consists of all
// collectives on Views, or of all sends to (or receives from) one rank with one tag.
struct Sequence {
  std::uint64_t called = 0, complete = 0;
};

// State that copies of a Communicator share. Messages of different Contexts never match.
struct Context {
  std::shared_ptr<Progress> progress;       // shared by the job
  std::unique_ptr<HostTransport> host;      // null if there is one rank and thus no messages
  std::unique_ptr<DeviceTransport> device;  // null if Views travel through host memory
  std::uint64_t collectives = 0;            // number called, including those on host memory
  // Sequences by pattern, peer and tag. Peer and tag are -1 for collectives.
  std::map<std::tuple<Pattern, int, int>, Sequence> sequences;
  std::int64_t bytes_sent = 0;
  // Message of the first error. Later operations fail with this message, because they would
  // otherwise wait forever.
  std::string broken;
};

// Description of an operation as the caller requested it.
struct Call {
  Label label{};
  // Part of the result that needs no message. Before any message is received, `own_src` is written
  // to `own_dst` or added to it. Absent if there is no such part.
  View own_dst{};
  ConstView own_src{};
  Accumulate own_how = Accumulate::overwrite;
  Messages messages{};
  // Elements of a staging buffer. 0 means those of the longest message.
  std::int64_t most = 0;
  NativeCollective native{};                    // if present, replaces the messages
  DType type{}, wire{};                         // of the operands, and of the messages
  Accumulate arriving = Accumulate::overwrite;  // how received data is written
  Pattern pattern = Pattern::collective;
  int peer = -1;
};

// One operation in flight.
class Operation {
 public:
  // Allocates the staging buffers of the operation.
  Operation(std::shared_ptr<Context>, Backend&, Queue, Call);

  // Advances the operation as far as possible without blocking. Returns true if anything changed.
  // Does not throw: error() returns the error.
  bool advance();
  // Returns true if the host has nothing left to do. Between GPUs, the work is then enqueued on a
  // stream but may still be running.
  bool complete() const { return complete_; }
  const std::string& error() const { return error_; }  // empty if none
  bool ended() const { return complete_ || !error_.empty(); }
  Backend& backend() const { return backend_; }
  const std::shared_ptr<Context>& context() const { return context_; }
  Queue queue() const { return queue_; }
  // Frees staging buffers and the tensors that were passed to keep(). Returns the event after which
  // the operation no longer uses memory.
  Event release();
  // Keeps a tensor alive until release().
  void keep(Tensor t) { kept_.push_back(std::move(t)); }
  // Copies the label's text, so that the label's `unit` may be destroyed afterwards.
  void remember_name() { name_ = to_string(label_); }
  const Label& label() const { return label_; }
  std::string name() const { return name_.empty() ? to_string(label_) : name_; }
  // Returns the operation's number in its sequence and its missing messages, for the error message
  // of a wait that takes too long.
  std::string state() const;

 private:
  bool begin();  // returns true when it has begun
  bool post();
  void trace() const;

  std::shared_ptr<Context> context_;
  Backend& backend_;
  Queue queue_;
  Label label_;
  std::string name_;
  View own_dst_;
  ConstView own_src_;
  Accumulate own_how_;
  Pattern pattern_;
  Sequence* sequence_;  // null if there is one rank
  std::uint64_t number_;
  Route route_;
  SendsInFlight sends_;
  ReceivesInFlight receives_;
  CollectiveInFlight native_;
  // `start_` is the event after which the operation may start. `done_` is the last event of the
  // operation on its queue.
  Event start_, done_{};
  std::optional<std::int64_t> issued_;  // by the clock of traces
  bool begun_ = false, complete_ = false;
  std::string error_;
  std::vector<Tensor> kept_;
};

}  // namespace trireme::engine
