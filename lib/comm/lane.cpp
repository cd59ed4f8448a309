#include "lib/comm/lane.hpp"

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
  return r.transport ? r.transport->rank() : 0;
}

Lane::Lane(const Route& route, Staging staging, std::size_t messages)
    : route_(route),
      staging_(std::move(staging)),
      messages_(messages),
      before_post_(rank_of(route)),
      before_landing_(rank_of(route)) {}

bool Lane::step() {
  bool moved = false;
  while (posted_ < messages_ && posted_ - finished_ < outstanding() && before_post_.over()) {
    requests_[posted_ % most_outstanding] = post(posted_);
    ++posted_;
    moved = true;
  }
  while (finished_ < posted_) {
    if (!arrived_) arrived_ = route_.transport->test(requests_[finished_ % most_outstanding]);
    if (!arrived_ || !before_landing_.over()) break;
    landed(finished_);
    arrived_ = false;
    ++finished_;
    moved = true;
  }
  return moved;
}

void Lane::release(Event e) {
  for (auto* t : {&staging_.host, &staging_.device}) {
    if (*t) t->used(e);
    *t = {};
  }
}

View Lane::host_piece(std::size_t message, std::int64_t count) const {
  const auto size = staging_.host.shape()[1];
  const auto begin = static_cast<std::int64_t>(message % Staging::pieces) * size;
  return staging_.host.slice(begin, {count}).view();
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

Transport::Request SendLane::post(std::size_t i) {
  const auto& [peer, src] = messages_[i];
  if (!staging_.host) return route_.transport->send(peer, route_.tag, bytes(src));
  auto& [backend, queue, transport, tag] = route_;
  const View piece = host_piece(i, src.count());
  if (backend.host_readable()) {
    backend.copy(queue, piece, src);
  } else if (piece.dtype == src.dtype) {
    backend.download(queue, bytes(piece), src);
  } else {
    backend.copy(queue, device_piece(src.count()), src);
    backend.download(queue, bytes(piece), device_piece(src.count()));
  }
  return transport->send(peer, tag, bytes(ConstView(piece)));
}

ReceiveLane::ReceiveLane(const Route& route, Staging staging, std::vector<Incoming> messages,
                         Accumulate how)
    : Lane(route, std::move(staging), messages.size()), messages_(std::move(messages)), how_(how) {}

Transport::Request ReceiveLane::post(std::size_t i) {
  const auto& [peer, dst] = messages_[i];
  const View to = staging_.host ? host_piece(i, dst.count()) : dst;
  return route_.transport->receive(peer, route_.tag, bytes(to));
}

void ReceiveLane::landed(std::size_t i) {
  if (!staging_.host) return;
  auto& [backend, queue, transport, tag] = route_;
  const View dst = messages_[i].view, piece = host_piece(i, dst.count());
  if (backend.host_readable()) {
    backend.copy(queue, dst, piece, how_);
  } else if (how_ == Accumulate::overwrite) {
    backend.upload(queue, dst, bytes(piece));
  } else {
    backend.upload(queue, device_piece(dst.count()), bytes(piece));
    backend.copy(queue, dst, device_piece(dst.count()), how_);
  }
}

}  // namespace trireme
