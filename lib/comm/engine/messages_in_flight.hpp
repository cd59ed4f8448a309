#pragma once
// One direction of an operation: its messages in order, a few of them in flight at a time, sent
// from (received into) the operands themselves or staging buffers.
#include <cstddef>
#include <vector>

#include "lib/comm/engine/delay.hpp"
#include "lib/comm/engine/messages.hpp"
#include "lib/comm/transport/device_transport.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme::engine {

using transport::DeviceTransport;
using transport::Transport;

// What both directions of an operation share.
struct Route {
  Backend& backend;
  Queue queue;
  Transport* transport;     // null: one rank, no messages
  DeviceTransport* device;  // the same one where it is between GPUs, else null
  int tag;
  bool staged;  // does either direction go through staging buffers?
  DelaySource& delays;

  // May the transport read and write the backend's memory?
  bool direct() const { return device || backend.host_readable(); }
  void* stream() const { return backend.native(queue); }
};

// Absent: the operands themselves.
struct Staging {
  static constexpr std::size_t buffers = 2;
  Tensor message;  // [buffers, elements] of the wire type, where the transport may touch them
  Tensor cast;     // [elements] of the wire type, where kernels cannot work on `message`
};

class MessagesInFlight {
 public:
  MessagesInFlight(const Route&, Staging, std::size_t messages);
  virtual ~MessagesInFlight() = default;
  MessagesInFlight(const MessagesInFlight&) = delete;
  MessagesInFlight& operator=(const MessagesInFlight&) = delete;

  // Post what can be posted, complete what has arrived; true: something changed. Throw Error when a
  // message failed.
  bool post();
  bool test();
  bool idle() const { return posted_ == completed_; }  // nothing is in flight
  bool complete() const { return completed_ == messages_; }
  std::size_t completed() const { return completed_; }
  // Staging was last used by `e` and is given back.
  void release(Event e);

 protected:
  virtual Transport::Request post_one(std::size_t message) = 0;
  virtual void completed_one(std::size_t) {}
  // The buffers of a message of `count` elements.
  View message_buffer(std::size_t message, std::int64_t count) const;
  View cast_buffer(std::int64_t count) const;

  Route route_;
  Staging staging_;

 private:
  std::size_t messages_, most_in_flight_, posted_ = 0, completed_ = 0;
  std::vector<Transport::Request> requests_;
  bool arrived_ = false;  // the oldest in flight
  Delay before_post_, before_completion_;
};

class SendsInFlight final : public MessagesInFlight {
 public:
  SendsInFlight(const Route&, Staging, std::vector<Outgoing>);
  const std::vector<Outgoing>& messages() const { return messages_; }

 private:
  Transport::Request post_one(std::size_t) override;
  std::vector<Outgoing> messages_;
};

class ReceivesInFlight final : public MessagesInFlight {
 public:
  // With Accumulate::add there is staging.
  ReceivesInFlight(const Route&, Staging, std::vector<Incoming>, Accumulate);
  const std::vector<Incoming>& messages() const { return messages_; }

 private:
  Transport::Request post_one(std::size_t) override;
  void completed_one(std::size_t) override;
  std::vector<Incoming> messages_;
  Accumulate how_;
};

}  // namespace trireme::engine
