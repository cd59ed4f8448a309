#pragma once
// A wire between host memories, and what ranks decide together.
#include <memory>

#include "lib/comm/wire.hpp"

namespace trireme {

enum class Reduction : std::uint8_t { sum, max };

class Transport : public Wire {
 public:
  virtual Request broadcast(int root, std::span<std::byte>) = 0;
  virtual Request all_reduce(Reduction, std::span<double>) = 0;
  // `bytes[r]` of rank r, one after the other in `all`.
  virtual Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                             std::span<const int> bytes) = 0;

  // Collective and blocking.
  virtual std::unique_ptr<Transport> split(int color, int key) = 0;
  virtual std::unique_ptr<Transport> node() = 0;
};

}  // namespace trireme
