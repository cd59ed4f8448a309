#include "lib/comm/engine/messages_in_flight.hpp"

#include <algorithm>
#include <utility>

namespace trireme::engine {

static int rank_of(const Route& r) {
  return r.transport ? r.transport->rank() : 0;
}

// Returns the maximum number of messages in flight. Between GPUs, the messages of a group are
// transferred together, so both sides must post the same messages in one group. Without staging, a
// group has all messages. If either direction is staged, both directions post as many messages as
// there are staging buffers.
static std::size_t most_in_flight(const Route& r, const Staging& s, std::size_t messages) {
  if (s.message || (r.device && r.staged)) return Staging::buffers;
  return r.device ? std::max<std::size_t>(messages, 1) : 4;
}

MessagesInFlight::MessagesInFlight(const Route& route, Staging staging, std::size_t messages)
    : route_(route),
      staging_(std::move(staging)),
      messages_(messages),
      most_in_flight_(most_in_flight(route, staging_, messages)),
      requests_(most_in_flight_),
      before_post_(route.delays, rank_of(route)),
      before_completion_(route.delays, rank_of(route)) {}

bool MessagesInFlight::post() {
  bool moved = false;
  // Messages between GPUs are not delayed one by one, because a group must be complete.
  const auto may = [this] { return route_.device || before_post_.over(); };
  while (posted_ < messages_ && posted_ - completed_ < most_in_flight_ && may()) {
    requests_[posted_ % most_in_flight_] = post_one(posted_);
    ++posted_;
    moved = true;
  }
  return moved;
}

bool MessagesInFlight::test() {
  bool moved = false;
  while (completed_ < posted_) {
    if (!arrived_) arrived_ = route_.transport->test(requests_[completed_ % most_in_flight_]);
    if (!arrived_ || !before_completion_.over()) break;
    completed_one(completed_);
    arrived_ = false;
    ++completed_;
    moved = true;
  }
  return moved;
}

void MessagesInFlight::release(Event e) {
  for (auto* t : {&staging_.message, &staging_.cast}) {
    if (*t) t->used(e);
    *t = {};
  }
}

View MessagesInFlight::message_buffer(std::size_t message, std::int64_t count) const {
  const auto size = staging_.message.shape()[1];
  const auto begin = static_cast<std::int64_t>(message % Staging::buffers) * size;
  return staging_.message.slice(begin, {count}).view();
}

View MessagesInFlight::cast_buffer(std::int64_t count) const {
  return staging_.cast.slice(0, {count}).view();
}

static std::span<std::byte> bytes(const View& v) {
  return {v.data, v.span_bytes()};
}

static std::span<const std::byte> bytes(const ConstView& v) {
  return {v.data, v.span_bytes()};
}

SendsInFlight::SendsInFlight(const Route& route, Staging staging, std::vector<Outgoing> messages)
    : MessagesInFlight(route, std::move(staging), messages.size()),
      messages_(std::move(messages)) {}

Transport::Request SendsInFlight::post_one(std::size_t i) {
  const auto& [peer, src] = messages_[i];
  if (!staging_.message) return route_.transport->send(peer, route_.tag, bytes(src));
  auto& backend = route_.backend;
  const auto queue = route_.queue;
  const View buffer = message_buffer(i, src.count());
  if (route_.direct()) {
    backend.put(queue, kernel::Copy{.dst = buffer, .src = src});
  } else if (buffer.dtype == src.dtype) {
    backend.download(queue, bytes(buffer), src);
  } else {
    backend.put(queue, kernel::Copy{.dst = cast_buffer(src.count()), .src = src});
    backend.download(queue, bytes(buffer), cast_buffer(src.count()));
  }
  return route_.transport->send(peer, route_.tag, bytes(ConstView(buffer)));
}

ReceivesInFlight::ReceivesInFlight(const Route& route, Staging staging,
                                   std::vector<Incoming> messages, Accumulate how)
    : MessagesInFlight(route, std::move(staging), messages.size()),
      messages_(std::move(messages)),
      how_(how) {}

Transport::Request ReceivesInFlight::post_one(std::size_t i) {
  const auto& [peer, dst] = messages_[i];
  const View to = staging_.message ? message_buffer(i, dst.count()) : dst;
  return route_.transport->receive(peer, route_.tag, bytes(to));
}

void ReceivesInFlight::completed_one(std::size_t i) {
  if (!staging_.message) return;
  auto& backend = route_.backend;
  const auto queue = route_.queue;
  const View dst = messages_[i].view, buffer = message_buffer(i, dst.count());
  if (route_.direct()) {
    backend.put(queue, kernel::Copy{.dst = dst, .src = buffer, .how = how_});
  } else if (how_ == Accumulate::overwrite) {
    backend.upload(queue, dst, bytes(buffer));
  } else {
    backend.upload(queue, cast_buffer(dst.count()), bytes(buffer));
    backend.put(queue, kernel::Copy{.dst = dst, .src = cast_buffer(dst.count()), .how = how_});
  }
}

}  // namespace trireme::engine
