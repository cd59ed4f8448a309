#pragma once
// The messages of one operation in one direction. Messages are sent from the operands or from
// staging buffers, or are received into them. They are posted in order, with a few in flight at a
// time.
#include <cstddef>
#include <vector>

#include "lib/comm/engine/delay.hpp"
#include "lib/comm/engine/messages.hpp"
#include "lib/comm/transport/device_transport.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme::engine {

using transport::DeviceTransport;
using transport::Transport;

// Transport and settings that all messages of an operation share.
struct Route {
  Backend& backend;
  Queue queue;
  Transport* transport;     // null if there is one rank and thus no messages
  DeviceTransport* device;  // equal to `transport` if that connects GPUs, otherwise null
  int tag;
  bool staged;  // true if sends or receives use staging buffers
  DelaySource& delays;

  // Returns true if the transport can access the backend's memory.
  bool direct() const { return device || backend.host_readable(); }
  void* stream() const { return backend.native(queue); }
};

// Staging buffers of one direction. They are absent if messages can use the operands directly.
struct Staging {
  static constexpr std::size_t buffers = 2;
  // Two buffers [buffers, elements] in the wire type, in memory that the transport can access.
  Tensor message;
  // Buffer [elements] in the wire type. Present if kernels cannot access `message`.
  Tensor cast;
};

// The messages that one operation sends, or the messages that it receives.
class MessagesInFlight {
 public:
  MessagesInFlight(const Route&, Staging, std::size_t messages);
  virtual ~MessagesInFlight() = default;
  MessagesInFlight(const MessagesInFlight&) = delete;
  MessagesInFlight& operator=(const MessagesInFlight&) = delete;

  // post() starts as many messages as may be in flight. test() completes messages that have
  // arrived. Both return true if anything changed, and throw Error if a message failed.
  bool post();
  bool test();
  bool idle() const { return posted_ == completed_; }
  bool complete() const { return completed_ == messages_; }
  std::size_t completed() const { return completed_; }
  // Frees the staging buffers. `e` is the event after their last use.
  void release(Event e);

 protected:
  virtual Transport::Request post_one(std::size_t message) = 0;
  virtual void completed_one(std::size_t) {}
  // Returns the buffer for message number `message`, which has `count` elements.
  View message_buffer(std::size_t message, std::int64_t count) const;
  View cast_buffer(std::int64_t count) const;

  Route route_;
  Staging staging_;

 private:
  std::size_t messages_, most_in_flight_, posted_ = 0, completed_ = 0;
  std::vector<Transport::Request> requests_;
  bool arrived_ = false;  // true if the oldest message in flight has arrived
  Delay before_post_, before_completion_;
};

// The messages that an operation sends.
class SendsInFlight final : public MessagesInFlight {
 public:
  SendsInFlight(const Route&, Staging, std::vector<Outgoing>);
  const std::vector<Outgoing>& messages() const { return messages_; }

 private:
  Transport::Request post_one(std::size_t) override;
  std::vector<Outgoing> messages_;
};

// The messages that an operation receives.
class ReceivesInFlight final : public MessagesInFlight {
 public:
  // Accumulate::add requires staging buffers.
  ReceivesInFlight(const Route&, Staging, std::vector<Incoming>, Accumulate);
  const std::vector<Incoming>& messages() const { return messages_; }

 private:
  Transport::Request post_one(std::size_t) override;
  void completed_one(std::size_t) override;
  std::vector<Incoming> messages_;
  Accumulate how_;
};

}  // namespace trireme::engine
