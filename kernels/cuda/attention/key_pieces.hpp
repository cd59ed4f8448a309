#pragma once
// Memory for attention through cuDNN if keys come in pieces or if queries and keys have different
// positions. cuDNN computes attention to the keys of one call and stores the result at the
// beginning of the workspace. A kernel then joins this result with the results of earlier calls
// (kernels/cuda/backend/attention.cpp).
#include "kernels/cuda/attention/sdpa_plan.hpp"

namespace trireme::cuda {

// cuDNN's results for one call, as views of memory from `at`. If `at` is null, only `bytes` and the
// shapes are meaningful.
struct PieceResults {
  PieceResults(std::byte* at, const AttentionShape&, Direction);

  View of_queries;  // o or dq, bf16 [B, T, H, D]
  View lse;         // f32 [B, H, T], dense, as cuDNN requires
  View dk, dv;      // backward pass only, bf16 [B, keys, G, D]
  std::size_t bytes = 0;
};

// Returns the bytes of a call's PieceResults, or 0 if cuDNN can write its results directly because
// the call has no key_count.
std::size_t piece_bytes(const AttentionShape&, Direction);

}  // namespace trireme::cuda
