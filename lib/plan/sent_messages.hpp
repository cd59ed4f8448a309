#pragma once
// Counts a rank's messages, and what it sends to other nodes, by axis.
#include "lib/comm/comms.hpp"
#include "lib/comm/engine/observer.hpp"
#include "lib/comm/placement.hpp"

namespace trireme {

class SentMessages final : public engine::Observer {
 public:
  // From now on, as long as it lives. `shard` as in make_axes.
  SentMessages(const Axes&, int shard, Placement);
  ~SentMessages() override;

  std::int64_t count() const { return count_; }
  // Payload in bytes.
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
