#include "kernels/cuda/attention/key_pieces.hpp"

namespace trireme::cuda {

PieceResults::PieceResults(std::byte* at, const AttentionShape& s, Direction d) {
  const auto take = [&](DType t, const Shape& shape) {
    const View v(at + bytes, t, shape);
    bytes += (v.span_bytes() + sdpa_alignment - 1) / sdpa_alignment * sdpa_alignment;
    return v;
  };
  of_queries = take(DType::bf16, {s.batch, s.tokens, s.heads, s.head_dim});
  lse = take(DType::f32, {s.batch, s.heads, s.tokens});
  if (d == Direction::forward) return;
  for (auto* const of_keys : {&dk, &dv})
    *of_keys = take(DType::bf16, {s.batch, s.keys(), s.kv_heads, s.head_dim});
}

std::size_t piece_bytes(const AttentionShape& s, Direction d) {
  return s.key_count > 0 ? PieceResults(nullptr, s, d).bytes : 0;
}

}  // namespace trireme::cuda
