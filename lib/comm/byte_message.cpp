#include "lib/comm/byte_message.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/comm/engine/operation.hpp"

namespace trireme {

// Pieces are small enough that a transport which copies them does not keep the rank from its own
// work. Two in flight keep the connection busy.
constexpr std::size_t message_piece = std::size_t{8} << 20, pieces_in_flight = 2;

ByteMessage::ByteMessage(const Communicator& communicator, Way way, int peer, int tag, Parts parts)
    : context_(communicator.context_), way_(way), peer_(peer), tag_(tag), left_(std::move(parts)) {
  expect(context_->host != nullptr && peer != communicator.rank(),
         "a rank sends no message to itself");
  post();
}

void ByteMessage::post() {
  auto& host = *context_->host;
  while (in_flight_.size() < pieces_in_flight && !left_.empty()) {
    auto& part = left_.front();
    const auto piece = part.first(std::min(message_piece, part.size()));
    part = part.subspan(piece.size());
    if (part.empty()) left_.pop_front();
    if (piece.empty()) continue;
    in_flight_.push_back(way_ == Way::send ? host.send(peer_, tag_, piece)
                                           : host.receive(peer_, tag_, piece));
  }
}

bool ByteMessage::complete() {
  while (!in_flight_.empty() && context_->host->test(in_flight_.front())) {
    in_flight_.pop_front();
    post();
  }
  return in_flight_.empty();
}

}  // namespace trireme
