#pragma once
// What the dry backend stands for where only order and memory matter: a machine with room and no
// attention.
#include "kernels/dry/dry.hpp"

namespace trireme {

inline DryTarget roomy_target(bool host_readable = true) {
  return {.properties = {.name = "none", .host_readable = host_readable, .workspace_bytes = 256},
          .capacity = std::size_t{1} << 40,
          .attention_workspace = [](const AttentionShape&, DType, Direction) -> std::size_t {
            return 0;
          }};
}

}  // namespace trireme
