#pragma once
// Moves host bytes between the ranks of one communicator and does nothing else: operations are
// posted and tested. Memory stays the caller's and untouched until `test` has said true.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace trireme {

enum class Reduction : std::uint8_t { sum, max };

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
  virtual Request broadcast(int root, std::span<std::byte>) = 0;
  virtual Request all_reduce(Reduction, std::span<double>) = 0;
  // `bytes[r]` of rank r, one after the other in `all`.
  virtual Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                             std::span<const int> bytes) = 0;
  // True: finished, and the request is gone. Throws Error when the operation failed.
  virtual bool test(Request) = 0;

  // Collective and blocking.
  virtual std::unique_ptr<Transport> split(int color, int key) = 0;
  virtual std::unique_ptr<Transport> node() = 0;
};

}  // namespace trireme
