#pragma once
// A target of the dry backend for tests where only order and memory matter: 1 TiB of memory, and
// attention without a workspace.
#include "kernels/dry/dry.hpp"

namespace trireme {

inline DryTarget roomy_target(bool host_readable = true) {
  return {
      .properties = {.name = "none", .host_readable = host_readable, .workspace_bytes = 256},
      .capacity = std::size_t{1} << 40,
      .attention_bytes = [](const AttentionShape&, DType, Direction) { return AttentionBytes{}; }};
}

}  // namespace trireme
