#include <algorithm>

#include "kernels/cuda/attention/key_pieces.hpp"
#include "kernels/cuda/attention_state.hpp"

namespace trireme {

AttentionBytes cuda_attention_bytes(const AttentionShape& s, DType t, Direction d, CudaBits bits) {
  const auto rows = static_cast<std::size_t>(s.batch * s.heads * s.tokens);
  const auto own = d == Direction::forward ? 0 : rows * sizeof(float);
  // On devices for which cuDNN supports less than for Hopper, and in builds without cuDNN's
  // frontend, this project's own kernel runs. The size therefore suffices for either kernel.
  return {cuda::sdpa_supports(s, t, d) && !s.documents
              ? std::max(own, cuda::piece_bytes(s, d) +
                                  cuda::sdpa_workspace(s, d, cuda::determinism_of(bits)))
              : own,
          rows * static_cast<std::size_t>(cuda::kept_floats(d, s.head_dim)) * sizeof(float)};
}

}  // namespace trireme
