#pragma once
// Counts the messages that a rank sends, and the bytes that it sends to other nodes, by axis of the
// grid.
#include "lib/comm/comms.hpp"
#include "lib/comm/engine/observer.hpp"
#include "lib/comm/placement.hpp"

namespace trireme {

// Observer of the communication engine that counts messages from its construction to its
// destruction.
class SentMessages final : public engine::Observer {
 public:
  // `shard` has the same meaning as in make_axes(). The Axes must outlive this object.
  SentMessages(const Axes&, int shard, Placement);
  ~SentMessages() override;

  std::int64_t count() const { return count_; }
  // Returns the payload sent to other nodes, in bytes.
  const Axes::Traffic& to_other_nodes() const { return to_other_nodes_; }

  void call(const engine::Context&, Queue, const engine::Call&) override;
  void called(const engine::Operation&) override {}
  void wait(const engine::Operation&) override {}
  void poll() override {}
  void agree(const engine::Context&, std::size_t) override {}

 private:
  const Axes& axes_;
  Comms comms_;
  Placement placement_;
  std::int64_t count_ = 0;
  Axes::Traffic to_other_nodes_;
};

}  // namespace trireme
