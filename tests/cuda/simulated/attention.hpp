#pragma once
// Attention as a simulated cuDNN computes it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace trireme::simulated {

// A tensor [B, heads, T, D] where its strides put it.
struct Operand {
  void* data;
  std::array<std::int64_t, 4> dim, stride;
  bool wide;  // f32, otherwise bf16

  std::size_t bytes() const {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < 4; ++d) last += (dim[d] - 1) * stride[d];
    return static_cast<std::size_t>(last + 1) * (wide ? 4 : 2);
  }
  std::int64_t offset(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return b * stride[0] + h * stride[1] + t * stride[2];
  }
  // Every row on 16 bytes, as its engines read them.
  bool aligned() const {
    if (wide) return reinterpret_cast<std::uintptr_t>(data) % 4 == 0;
    bool all = reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride[3] == 1;
    for (std::size_t d = 0; d < 3; ++d) all = all && (dim[d] == 1 || stride[d] % 8 == 0);
    return all;
  }
};

struct AttentionCall {
  std::vector<Operand> at;  // q k v o stats do dq dk dv
  float scale;
  std::optional<std::int64_t> right_bound, left_bound;
  bool bottom_right;  // the diagonal ends with the last query and key, instead of beginning with
                      // the first
  bool deterministic;

  bool sees(std::int64_t query, std::int64_t key) const {
    const auto own = query + (bottom_right ? at[1].dim[2] - at[0].dim[2] : 0);
    return (!right_bound || key <= own + *right_bound) && (!left_bound || own - key < *left_bound);
  }
  std::int64_t group() const { return at[0].dim[1] / at[1].dim[1]; }
};

// The results of the call; forward where there are no gradients.
void compute(const AttentionCall&);

}  // namespace trireme::simulated
