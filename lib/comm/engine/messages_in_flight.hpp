#pragma once
// One direction of an operation: its messages in order, a few of them outstanding at a time. They
// travel through the operands themselves or through pieces of staging, in turn.
#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "lib/comm/device_wire.hpp"
#include "lib/comm/messages.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// What both directions of an operation share.
struct Route {
  Backend& backend;
  Queue queue;
  Wire* wire;          // null: one rank, no messages
  DeviceWire* device;  // the same wire where it is one between GPUs, else null
  int tag;
  bool staged;  // does either direction go through pieces?

  // May the wire read and write the backend's memory?
  bool direct() const { return device || backend.host_readable(); }
  void* stream() const { return backend.native(queue); }
};

// Absent: the operands themselves.
struct Staging {
  static constexpr std::size_t pieces = 2;
  Tensor wire;    // `pieces` pieces of the type that travels, where the wire may touch them
  Tensor device;  // one piece for casts and sums, where kernels cannot work on `wire`
};

// Holds something back for a random time, where CommSettings::random_delays asks for it.
class Delay {
 public:
  explicit Delay(int rank) : rank_(rank) {}
  // May it go on? A yes begins the next delay.
  bool over();

 private:
  int rank_;
  std::optional<std::chrono::steady_clock::time_point> until_;
};

class Lane {
 public:
  Lane(const Route&, Staging, std::size_t messages);
  virtual ~Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Posts what can be, finishes what has arrived; true: something moved. Throw Error when a message
  // failed.
  bool post();
  bool land();
  bool idle() const { return posted_ == finished_; }  // nothing is outstanding
  bool finished() const { return finished_ == messages_; }
  std::size_t done() const { return finished_; }
  // Its staging was last used by `e` and is given back.
  void release(Event e);

 protected:
  virtual Wire::Request post_one(std::size_t message) = 0;
  virtual void landed(std::size_t) {}
  View wire_piece(std::size_t message, std::int64_t count) const;
  View device_piece(std::int64_t count) const;

  Route route_;
  Staging staging_;

 private:
  std::size_t messages_, most_outstanding_, posted_ = 0, finished_ = 0;
  std::vector<Wire::Request> requests_;
  bool arrived_ = false;  // the oldest outstanding one
  Delay before_post_, before_landing_;
};

class SendLane final : public Lane {
 public:
  SendLane(const Route&, Staging, std::vector<Outgoing>);
  const std::vector<Outgoing>& messages() const { return messages_; }

 private:
  Wire::Request post_one(std::size_t) override;
  std::vector<Outgoing> messages_;
};

class ReceiveLane final : public Lane {
 public:
  // With Accumulate::add there is staging.
  ReceiveLane(const Route&, Staging, std::vector<Incoming>, Accumulate);
  const std::vector<Incoming>& messages() const { return messages_; }

 private:
  Wire::Request post_one(std::size_t) override;
  void landed(std::size_t) override;
  std::vector<Incoming> messages_;
  Accumulate how_;
};

}  // namespace trireme
