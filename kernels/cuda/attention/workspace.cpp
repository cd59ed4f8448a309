#include <algorithm>

#include "kernels/cuda/attention/sdpa_plan.hpp"

namespace trireme {

AttentionBytes cuda_attention_bytes(const AttentionShape& s, DType t, Direction d, CudaBits bits) {
  const auto own = d == Direction::forward
                       ? 0
                       : static_cast<std::size_t>(s.batch * s.heads * s.tokens) * sizeof(float);
  // On a device for which cuDNN has less than for Hopper, and in a build without cuDNN's frontend,
  // it is the own kernel that runs.
  return {cuda::sdpa_supports(s, t, d)
              ? std::max(own, cuda::sdpa_workspace(s, d, cuda::determinism_of(bits)))
              : own,
          0};
}

}  // namespace trireme
