#pragma once
// A message of bytes between the host memories of two ranks, which travels while both ranks do
// other work.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "lib/comm/communicator.hpp"

namespace trireme {

// A message of bytes in flight. It is sent in pieces, so that its size is not limited. Its bytes
// may consist of several parts, which are in different places in memory. Messages between the same
// two ranks that are in flight at the same time must have different tags.
//
// The caller keeps the memory alive until complete() returns true. A ByteMessage that is destroyed
// earlier does not end the transfer, so the memory must then live until MPI ends.
class ByteMessage {
 public:
  enum class Way : std::uint8_t { send, receive };
  using Parts = std::deque<std::span<std::byte>>;
  // Starts to send the bytes to `peer`, or to receive them from there. Both ranks must pass parts
  // of the same sizes. Throws Error if MPI fails.
  ByteMessage(const Communicator&, Way, int peer, int tag, Parts);

  // Advances the message without blocking. Returns true if it has been sent or received. Throws
  // Error if MPI fails.
  bool complete();

 private:
  void post();

  std::shared_ptr<engine::Context> context_;
  Way way_;
  int peer_, tag_;
  Parts left_;  // not posted yet
  std::deque<transport::Transport::Request> in_flight_;
};

}  // namespace trireme
