#pragma once
// Interface of transports, which send and receive bytes between the ranks of one communicator. A
// message is posted and then tested for completion. Until test() returns true, the caller must keep
// the memory alive and must not access it.
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme::transport {

// Interface that sends and receives bytes between ranks.
class Transport {
 public:
  enum class Request : std::uint32_t {};

  virtual ~Transport() = default;
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // send() and receive() post a message. Messages between two ranks with the same tag arrive in the
  // order in which they were posted.
  virtual Request send(int to, int tag, std::span<const std::byte>) = 0;
  virtual Request receive(int from, int tag, std::span<std::byte>) = 0;
  // Returns true if the operation is complete, after which the request is invalid. Throws Error if
  // the operation failed.
  virtual bool test(Request) = 0;
};

}  // namespace trireme::transport
