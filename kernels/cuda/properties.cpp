#include "kernels/cuda/device.hpp"

namespace trireme {

BackendProperties cuda_properties() {
  return {.name = "cuda",
          .host_readable = false,
          .workspace_bytes = cuda_workspace_bytes,
          // Each chunk adds to the whole gradient of the head's weight, so chunks are large.
          .head_rows = 4096,
          .invariant = false,
          .key_tile = 32};  // one key for each lane of a warp
}

}  // namespace trireme
