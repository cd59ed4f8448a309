#include "kernels/backend.hpp"

namespace trireme {

std::string_view name_of(Queue q) {
  constexpr std::string_view names[] = {"compute", "gather", "scatter", "exchange",
                                        "down",    "up",     "host"};
  return names[static_cast<int>(q)];
}

std::string_view name_of(MemoryKind k) {
  constexpr std::string_view names[] = {"weights",  "optimizer", "gradients", "gathered",
                                        "saved",    "transient", "boundary",  "staging",
                                        "snapshot", "offloaded", "workspace"};
  return names[static_cast<int>(k)];
}

}  // namespace trireme
