#include "lib/comm/lane.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/rng.hpp"
#include "lib/comm/settings.hpp"

namespace trireme {

bool Delay::over() {
  const auto seed = comm_settings().random_delays;
  if (seed == 0) return true;
  const auto now = std::chrono::steady_clock::now();
  if (!until_) {
    static std::uint64_t draws = 0;
    const auto r = hash64(seed, static_cast<std::uint64_t>(rank_), ++draws);
    // Most messages are quick, some are much later than others.
    until_ = now + std::chrono::microseconds(r % 4 == 0 ? (r >> 8) % 400 : 0);
  }
  if (now < *until_) return false;
  until_.reset();
  return true;
}

static int rank_of(const Route& r) {
  return r.wire ? r.wire->rank() : 0;
}

// Between GPUs a group of messages moves together, so it must hold a message whenever the other
// side's does: all of them, or, where one direction has pieces alone, as many in both.
static std::size_t most_outstanding(const Route& r, const Staging& s, std::size_t messages) {
  if (s.wire || (r.device && r.staged)) return Staging::pieces;
  return r.device ? std::max<std::size_t>(messages, 1) : 4;
}

Lane::Lane(const Route& route, Staging staging, std::size_t messages)
    : route_(route),
      staging_(std::move(staging)),
      messages_(messages),
      most_outstanding_(most_outstanding(route, staging_, messages)),
      requests_(most_outstanding_),
      before_post_(rank_of(route)),
      before_landing_(rank_of(route)) {}

bool Lane::post() {
  bool moved = false;
  // A group is complete, so its messages cannot be held back one by one.
  const auto may = [this] { return route_.device || before_post_.over(); };
  while (posted_ < messages_ && posted_ - finished_ < most_outstanding_ && may()) {
    requests_[posted_ % most_outstanding_] = post_one(posted_);
    ++posted_;
    moved = true;
  }
  return moved;
}

bool Lane::land() {
  bool moved = false;
  while (finished_ < posted_) {
    if (!arrived_) arrived_ = route_.wire->test(requests_[finished_ % most_outstanding_]);
    if (!arrived_ || !before_landing_.over()) break;
    landed(finished_);
    arrived_ = false;
    ++finished_;
    moved = true;
  }
  return moved;
}

void Lane::release(Event e) {
  for (auto* t : {&staging_.wire, &staging_.device}) {
    if (*t) t->used(e);
    *t = {};
  }
}

View Lane::wire_piece(std::size_t message, std::int64_t count) const {
  const auto size = staging_.wire.shape()[1];
  const auto begin = static_cast<std::int64_t>(message % Staging::pieces) * size;
  return staging_.wire.slice(begin, {count}).view();
}

View Lane::device_piece(std::int64_t count) const {
  return staging_.device.slice(0, {count}).view();
}

static std::span<std::byte> bytes(const View& v) {
  return {v.data, v.span_bytes()};
}

static std::span<const std::byte> bytes(const ConstView& v) {
  return {v.data, v.span_bytes()};
}

SendLane::SendLane(const Route& route, Staging staging, std::vector<Outgoing> messages)
    : Lane(route, std::move(staging), messages.size()), messages_(std::move(messages)) {}

Wire::Request SendLane::post_one(std::size_t i) {
  const auto& [peer, src] = messages_[i];
  if (!staging_.wire) return route_.wire->send(peer, route_.tag, bytes(src));
  auto& backend = route_.backend;
  const auto queue = route_.queue;
  const View piece = wire_piece(i, src.count());
  if (route_.direct()) {
    backend.copy(queue, piece, src);
  } else if (piece.dtype == src.dtype) {
    backend.download(queue, bytes(piece), src);
  } else {
    backend.copy(queue, device_piece(src.count()), src);
    backend.download(queue, bytes(piece), device_piece(src.count()));
  }
  return route_.wire->send(peer, route_.tag, bytes(ConstView(piece)));
}

ReceiveLane::ReceiveLane(const Route& route, Staging staging, std::vector<Incoming> messages,
                         Accumulate how)
    : Lane(route, std::move(staging), messages.size()), messages_(std::move(messages)), how_(how) {}

Wire::Request ReceiveLane::post_one(std::size_t i) {
  const auto& [peer, dst] = messages_[i];
  const View to = staging_.wire ? wire_piece(i, dst.count()) : dst;
  return route_.wire->receive(peer, route_.tag, bytes(to));
}

void ReceiveLane::landed(std::size_t i) {
  if (!staging_.wire) return;
  auto& backend = route_.backend;
  const auto queue = route_.queue;
  const View dst = messages_[i].view, piece = wire_piece(i, dst.count());
  if (route_.direct()) {
    backend.copy(queue, dst, piece, how_);
  } else if (how_ == Accumulate::overwrite) {
    backend.upload(queue, dst, bytes(piece));
  } else {
    backend.upload(queue, device_piece(dst.count()), bytes(piece));
    backend.copy(queue, dst, device_piece(dst.count()), how_);
  }
}

}  // namespace trireme
