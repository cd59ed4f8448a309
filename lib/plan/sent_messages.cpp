#include "lib/plan/sent_messages.hpp"

#include "lib/comm/engine/operation.hpp"

namespace trireme {

SentMessages::SentMessages(const Axes& axes, int shard, Placement placement)
    : axes_(axes), comms_(axes, shard), placement_(placement) {
  axes_.world.set_observer(this);
}

SentMessages::~SentMessages() {
  axes_.world.set_observer(nullptr);
}

static std::int64_t& part_of(Axes::Traffic& t, Comm comm) {
  switch (comm) {
    case Comm::seq:
      return t.seq;
    case Comm::down:
    case Comm::up:
    case Comm::stages:
      return t.pipe;
    case Comm::experts:
      return t.expert;
    default:
      return t.shard;
  }
}

void SentMessages::call(const engine::Context& context, Queue, const engine::Call& c) {
  const Comm on = comms_.of(context);
  const auto members = comms_.members(on);
  const int here = placement_.node(axes_.world.rank());
  count_ += std::ssize(c.messages.out);
  for (const auto& m : c.messages.out)
    if (placement_.node(members[static_cast<std::size_t>(m.peer)]) != here)
      part_of(to_other_nodes_, on) += m.view.count() * static_cast<std::int64_t>(bytes_of(c.wire));
}

}  // namespace trireme
