#pragma once
// The views of an attention call as the model makes them: q, k and v packed, o dense. They point to
// addresses that nobody reads.
#include "kernels/cuda/attention/sdpa_plan.hpp"

namespace trireme::cuda {

class Packed {
 public:
  explicit Packed(const AttentionShape& s) : s_(s) {}

  std::byte* bytes() const { return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 20); }

  SdpaOperands operands() const {
    const auto [q, k, v] = s_.key_count > 0 ? apart() : parts();
    const View o(bytes(), DType::bf16, {s_.batch, s_.tokens, s_.heads, s_.head_dim});
    const View lse(bytes(), DType::f32, {s_.batch, s_.heads, s_.tokens});
    return {q, k, v, o, lse, o, q, k, v};
  }

 private:
  std::array<View, 3> parts() const {
    const View all(bytes(), DType::bf16,
                   {s_.batch, s_.tokens, s_.heads + 2 * s_.kv_heads, s_.head_dim});
    return {all.slice(2, 0, s_.heads), all.slice(2, s_.heads, s_.kv_heads),
            all.slice(2, s_.heads + s_.kv_heads, s_.kv_heads)};
  }

  // A chunk's keys and values side by side.
  std::array<View, 3> apart() const {
    const View q(bytes(), DType::bf16, {s_.batch, s_.tokens, s_.heads, s_.head_dim}),
        kv(bytes(), DType::bf16, {s_.batch, s_.keys(), 2 * s_.kv_heads, s_.head_dim});
    return {q, kv.slice(2, 0, s_.kv_heads), kv.slice(2, s_.kv_heads, s_.kv_heads)};
  }

  AttentionShape s_;
};

}  // namespace trireme::cuda
