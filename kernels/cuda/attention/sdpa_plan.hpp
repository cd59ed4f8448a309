#pragma once
// Attention through cuDNN, as far as it is decided with neither a device nor cuDNN at hand: a plan
// made on a login node and the run on a GPU get the same answers from here.
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cuda/device.hpp"
#include "kernels/operations.hpp"

namespace trireme::cuda {

// On: equal inputs give equal bits. Off: backward adds its parts of dq in the order they arrive.
enum class Determinism : std::uint8_t { off, on };
inline constexpr Determinism determinism_of(CudaBits b) {
  return b == CudaBits::repeatable ? Determinism::on : Determinism::off;
}

// Which keys of a call its queries see: of as many, those up to their own; of more, of which the
// last ones are the queries' own, the same; all.
enum class SdpaMask : std::uint8_t { causal, causal_at_end, none };
std::optional<SdpaMask> sdpa_mask(const AttentionShape&);

// Keys that a mask says, bf16, head dim a multiple of 8 up to 256 (backward up to 128 but on
// Hopper), as many query heads on each key/value head, more than one token backward. `sm` is the
// device's architecture, e.g. 90; a plan made elsewhere takes Hopper for granted.
inline constexpr int sm_hopper = 90;
bool sdpa_supports(const AttentionShape&, DType, Direction, int sm = sm_hopper);

// Samples [sample, sample + samples) and key/value heads [kv_head, kv_head + kv_heads) with their
// query heads: what one call of cuDNN gets. A call is split when its scratch would pass the limit.
struct SdpaPart {
  std::int64_t sample, samples, kv_head, kv_heads;
  bool operator==(const SdpaPart&) const = default;
};
inline constexpr std::size_t sdpa_part_limit = std::size_t{1} << 30;
// In order; together they cover the shape once. Whole samples first, then whole groups of heads:
// one group is never split, whatever it needs.
std::vector<SdpaPart> sdpa_parts(const AttentionShape&, Direction, Determinism,
                                 std::size_t limit = sdpa_part_limit);
AttentionShape shape_of(const AttentionShape& whole, const SdpaPart&);
// The halves of a part, by samples or else by groups of heads; none: it is one group of one
// sample. For an engine that needs more than is known here.
std::vector<SdpaPart> halves_of(const SdpaPart&);

// Upper bound of the bytes that the parts of a shape need, one after the other. It includes what
// is lost to alignment.
inline constexpr std::size_t sdpa_alignment = 256;
std::size_t sdpa_workspace(const AttentionShape&, Direction, Determinism,
                           std::size_t limit = sdpa_part_limit);

// The tensors of a call, forward the first five. [B, T, heads, D], T of keys their own; lse f32
// [B, H, T].
enum SdpaOperand : std::uint8_t {
  sdpa_q,
  sdpa_k,
  sdpa_v,
  sdpa_o,
  sdpa_lse,
  sdpa_do,
  sdpa_dq,
  sdpa_dk,
  sdpa_dv
};
inline constexpr std::size_t sdpa_operands = 9;
inline constexpr std::size_t operands_of(Direction d) {
  return d == Direction::forward ? 5 : 9;
}
using SdpaOperands = std::array<ConstView, sdpa_operands>;

// Throws Error unless every operand has the shape's extents, bf16, a dense last dim, and lies on 16
// bytes with all its rows; lse is f32 and dense.
void check_operands(const AttentionShape&, Direction, const SdpaOperands&);
SdpaOperands operands_of(const SdpaOperands& whole, const AttentionShape&, const SdpaPart&);

// Whatever a plan of cuDNN's depends on: calls with equal keys share a plan.
struct SdpaKey {
  Direction direction;
  Determinism determinism;
  std::array<std::int64_t, 6> extents;  // B, T, H, G, D, T of keys
  SdpaMask mask;
  std::int64_t window;  // 0: hides nothing
  double scale;
  // In elements for B, T and heads (lse: B, T, H). What a dim of one element has is not part of it.
  std::array<std::array<std::int64_t, 3>, sdpa_operands> strides;
  auto operator<=>(const SdpaKey&) const = default;
};
SdpaKey key_of(const AttentionShape&, Direction, Determinism, const SdpaOperands&);

}  // namespace trireme::cuda
