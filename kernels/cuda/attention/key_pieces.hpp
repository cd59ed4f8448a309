#pragma once
// Attention through cuDNN where keys come in pieces, or queries stand anywhere in their context:
// what cuDNN gives of a call's keys alone waits in front of its workspace, to be joined with what
// is known of the queries (kernels/cuda/backend/attention.cpp).
#include "kernels/cuda/attention/sdpa_plan.hpp"

namespace trireme::cuda {

// Views of memory, or where there is none, sizes.
struct PieceResults {
  PieceResults(std::byte* at, const AttentionShape&, Direction);

  View of_queries;  // o or dq, bf16 [B, T, H, D]
  View lse;         // f32 [B, H, T], dense, as cuDNN has it
  View dk, dv;      // backward, bf16 [B, T of keys, G, D]
  std::size_t bytes = 0;
};

// 0: results of such a call are nothing to wait for.
std::size_t piece_bytes(const AttentionShape&, Direction);

}  // namespace trireme::cuda
