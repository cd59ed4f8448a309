#pragma once
// One operation in flight: its lanes, and when it may begin.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "lib/comm/pending.hpp"
#include "lib/comm/whole_lane.hpp"

namespace trireme {

enum class Between : std::uint8_t { all, sender, receiver };

// Operations that run one after the other, since their messages could be taken for each other:
// collectives on Views; sends to one rank, or receives from one, with one tag.
struct Turns {
  std::uint64_t called = 0, finished = 0;
};

// What the copies of one Communicator share.
struct Channel {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<DeviceWire> device;  // between GPUs; null: Views travel through host memory
  std::uint64_t collectives = 0;       // called, those on host memory too
  std::map<std::tuple<Between, int, int>, Turns> turns;  // by peer and tag; -1 for collectives
  std::int64_t bytes_sent = 0;
  std::string broken;  // the first error of an operation: those behind it would wait for ever
};

// What an operation moves, before it is decided how.
struct Operation {
  Label label{};
  // What stays on this rank: dst (+)= src before anything arrives. dst absent: nothing.
  View own_dst{};
  ConstView own_src{};
  Accumulate own_how = Accumulate::overwrite;
  Messages messages{};
  Whole whole{};                                // present: does what the messages would
  DType type{}, wire{};                         // of the operands, of what travels
  Accumulate arriving = Accumulate::overwrite;  // what happens to what is received
  Between between = Between::all;
  int peer = -1;
};

class Job {
 public:
  // Takes staging. `channel` may be null: one rank.
  Job(std::shared_ptr<Channel> channel, Backend&, Queue, Operation);

  // Moves what can be moved; true: something did. Never throws: see error().
  bool step();
  // On the host's view: between GPUs, all is on its stream and its order is settled.
  bool finished() const { return finished_; }
  Backend& backend() const { return backend_; }
  const std::shared_ptr<Channel>& channel() const { return channel_; }
  Queue queue() const { return queue_; }
  const std::string& error() const { return error_; }  // empty: none
  bool over() const { return finished_ || !error_.empty(); }
  // Gives staging and what was kept back; the event after which the operation's memory is free.
  Event release();
  void keep(Tensor t) { kept_.push_back(std::move(t)); }
  // From now on the label's name may go.
  void remember_name() { name_ = to_string(label_); }
  const Label& label() const { return label_; }  // its unit lives until remember_name()
  std::string name() const { return name_.empty() ? to_string(label_) : name_; }
  std::string state() const;  // who waits for what, for a wait that is too long

 private:
  bool begin();  // true: it has begun
  bool post();
  void trace() const;

  std::shared_ptr<Channel> channel_;
  Backend& backend_;
  Queue queue_;
  Label label_;
  std::string name_;
  View own_dst_;
  ConstView own_src_;
  Accumulate own_how_;
  bool two_;      // between two ranks
  Turns* turns_;  // null: one rank
  std::uint64_t turn_;
  Route route_;
  SendLane out_;
  ReceiveLane in_;
  WholeLane whole_;
  Event start_;
  std::optional<std::int64_t> issued_;  // by the clock of a trace
  bool begun_ = false, finished_ = false;
  std::string error_;
  std::vector<Tensor> kept_;
};

}  // namespace trireme
