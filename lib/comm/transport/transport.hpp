#pragma once
// Sends and receives bytes between the ranks of one communicator: messages are posted and tested.
// The caller keeps the memory alive and does not touch it until `test` returns true.
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme::transport {

class Transport {
 public:
  enum class Request : std::uint32_t {};

  virtual ~Transport() = default;
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Messages between two ranks with one tag arrive in the order in which they were posted.
  virtual Request send(int to, int tag, std::span<const std::byte>) = 0;
  virtual Request receive(int from, int tag, std::span<std::byte>) = 0;
  // True: complete, and the request is gone. Throws Error when the operation failed.
  virtual bool test(Request) = 0;
};

}  // namespace trireme::transport
