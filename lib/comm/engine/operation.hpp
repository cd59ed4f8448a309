#pragma once
// One operation in flight: its messages, and when it may begin.
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

enum class Pattern : std::uint8_t { collective, send, receive };

// Operations that run one after the other, since their messages could be mistaken for each other's:
// collectives on Views; sends to one rank, or receives from one, with one tag.
struct Sequence {
  std::uint64_t called = 0, complete = 0;
};

// What the copies of one Communicator share; its messages never match another Communicator's.
struct Context {
  std::shared_ptr<Progress> progress;       // of the job
  std::unique_ptr<HostTransport> host;      // null: one rank, no messages
  std::unique_ptr<DeviceTransport> device;  // null: Views travel through host memory
  std::uint64_t collectives = 0;            // called, those on host memory too
  std::map<std::tuple<Pattern, int, int>, Sequence> sequences;  // by peer and tag; else -1
  std::int64_t bytes_sent = 0;
  std::string broken;  // the first error of an operation: later ones would wait for ever
};

// An operation as it was called.
struct Call {
  Label label{};
  // What stays on this rank: dst (+)= src before anything arrives. dst absent: nothing.
  View own_dst{};
  ConstView own_src{};
  Accumulate own_how = Accumulate::overwrite;
  Messages messages{};
  NativeCollective native{};                    // present: does what the messages would
  DType type{}, wire{};                         // of the operands, of what travels
  Accumulate arriving = Accumulate::overwrite;  // what happens to what is received
  Pattern pattern = Pattern::collective;
  int peer = -1;
};

class Operation {
 public:
  // Takes staging.
  Operation(std::shared_ptr<Context>, Backend&, Queue, Call);

  // Makes what progress it can; true: some. Never throws: see error().
  bool advance();
  // On the host's view: between GPUs, all is on its stream and its order is fixed.
  bool complete() const { return complete_; }
  const std::string& error() const { return error_; }  // empty: none
  bool ended() const { return complete_ || !error_.empty(); }
  Backend& backend() const { return backend_; }
  const std::shared_ptr<Context>& context() const { return context_; }
  Queue queue() const { return queue_; }
  // Gives staging and what was kept back; the event after which the operation's memory is free.
  Event release();
  void keep(Tensor t) { kept_.push_back(std::move(t)); }
  // From now on the label's unit need not live.
  void remember_name() { name_ = to_string(label_); }
  const Label& label() const { return label_; }  // its unit lives until remember_name()
  std::string name() const { return name_.empty() ? to_string(label_) : name_; }
  // Its number among those of its kind, and what is missing: for a wait that is too long.
  std::string state() const;

 private:
  bool begin();  // true: it has begun
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
  Sequence* sequence_;  // null: one rank
  std::uint64_t number_;
  Route route_;
  SendsInFlight sends_;
  ReceivesInFlight receives_;
  CollectiveInFlight native_;
  Event start_, done_{};                // done: its last work on the queue, once that is asked for
  std::optional<std::int64_t> issued_;  // by the clock of a trace
  bool begun_ = false, complete_ = false;
  std::string error_;
  std::vector<Tensor> kept_;
};

}  // namespace trireme::engine
