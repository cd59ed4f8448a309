#pragma once
// One direction of an operation: its messages in order, a few of them outstanding at a time. They
// travel through the operands themselves or through pieces of staging, in turn.
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "lib/comm/messages.hpp"
#include "lib/comm/transport.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// What both directions of an operation share.
struct Route {
  Backend& backend;
  Queue queue;
  Transport* transport;  // null: one rank, no messages
  int tag;
};

// Absent: the operands themselves.
struct Staging {
  static constexpr std::size_t pieces = 2;
  Tensor host;    // `pieces` pieces of the type that travels, where MPI may touch them
  Tensor device;  // one piece for casts and sums, where kernels cannot work on `host`
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

  // Posts and finishes what can be; true: something moved. Throws Error when a message failed.
  bool step();
  bool finished() const { return finished_ == messages_; }
  std::size_t done() const { return finished_; }
  // Its staging was last used by `e` and is given back.
  void release(Event e);

 protected:
  virtual Transport::Request post(std::size_t message) = 0;
  virtual void landed(std::size_t) {}
  View host_piece(std::size_t message, std::int64_t count) const;
  View device_piece(std::int64_t count) const;

  Route route_;
  Staging staging_;

 private:
  static constexpr std::size_t most_outstanding = 4;
  std::size_t outstanding() const { return staging_.host ? Staging::pieces : most_outstanding; }

  std::size_t messages_, posted_ = 0, finished_ = 0;
  std::array<Transport::Request, most_outstanding> requests_{};
  bool arrived_ = false;  // the oldest outstanding one
  Delay before_post_, before_landing_;
};

class SendLane final : public Lane {
 public:
  SendLane(const Route&, Staging, std::vector<Outgoing>);
  const std::vector<Outgoing>& messages() const { return messages_; }

 private:
  Transport::Request post(std::size_t) override;
  std::vector<Outgoing> messages_;
};

class ReceiveLane final : public Lane {
 public:
  // With Accumulate::add there is staging.
  ReceiveLane(const Route&, Staging, std::vector<Incoming>, Accumulate);
  const std::vector<Incoming>& messages() const { return messages_; }

 private:
  Transport::Request post(std::size_t) override;
  void landed(std::size_t) override;
  std::vector<Incoming> messages_;
  Accumulate how_;
};

}  // namespace trireme
