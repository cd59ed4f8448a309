#pragma once
// Decisions about attention through cuDNN that need neither a device nor cuDNN. A plan made on a
// login node and the run on a GPU therefore agree.
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cuda/device.hpp"
#include "kernels/operations.hpp"

namespace trireme::cuda {

// Reproducibility of the backward pass. With `on`, equal inputs give equal bits. With `off`, the
// parts of dq are added in the order in which thread blocks finish.
enum class Determinism : std::uint8_t { off, on };
inline constexpr Determinism determinism_of(CudaBits b) {
  return b == CudaBits::repeatable ? Determinism::on : Determinism::off;
}

// Causal mask of a call. With `causal`, queries and keys have the same positions, and a query
// attends to the keys up to its own position. With `causal_at_end`, there are additional earlier
// keys. With `none`, every query attends to every key.
enum class SdpaMask : std::uint8_t { causal, causal_at_end, none };
// Returns the mask of a call, or nullopt if no SdpaMask describes the call.
std::optional<SdpaMask> sdpa_mask(const AttentionShape&);

// Architecture number of Hopper GPUs.
inline constexpr int sm_hopper = 90;
// Returns true if cuDNN can compute attention of this shape and type. cuDNN needs keys that an
// SdpaMask describes, bf16, no soft cap, the same number of query heads for each key/value head,
// and a head dim that is a multiple of 8 up to 256. The backward pass needs more than one token
// and, except on Hopper, a head dim up to 128. `sm` is the device's architecture, e.g. 90. A plan
// assumes Hopper.
bool sdpa_supports(const AttentionShape&, DType, Direction, int sm = sm_hopper);

// Part of an attention call that one call of cuDNN computes: samples [sample, sample + samples) and
// key/value heads [kv_head, kv_head + kv_heads) with their query heads. A call is split into parts
// if its scratch would exceed a limit.
struct SdpaPart {
  std::int64_t sample, samples, kv_head, kv_heads;
  bool operator==(const SdpaPart&) const = default;
};
inline constexpr std::size_t sdpa_part_limit = std::size_t{1} << 30;
// Divides a shape into parts that together cover it once, in order. A call is split into whole
// samples first, then into key/value heads with their query heads. A single key/value head is never
// split, even if it exceeds `limit`.
std::vector<SdpaPart> sdpa_parts(const AttentionShape&, Direction, Determinism,
                                 std::size_t limit = sdpa_part_limit);
// Returns the shape of the attention that one part computes.
AttentionShape shape_of(const AttentionShape& whole, const SdpaPart&);
// Splits a part in two: by samples or, if the part has only one sample, by key/value heads. Returns
// an empty vector if the part is one key/value head of one sample. Callers run the halves if an
// engine needs more memory than expected.
std::vector<SdpaPart> halves_of(const SdpaPart&);

// Alignment of the workspace in bytes.
inline constexpr std::size_t sdpa_alignment = 256;
// Returns an upper bound on the bytes of workspace for the parts of a shape. The parts run one
// after the other and share the memory. The bound includes alignment losses.
std::size_t sdpa_workspace(const AttentionShape&, Direction, Determinism,
                           std::size_t limit = sdpa_part_limit);

// Index of a tensor in SdpaOperands. The forward pass uses the first five tensors. lse is f32 [B,
// H, T]. All other tensors are [B, T, heads, D], where T is the number of keys for k, v, dk and dv.
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

// Throws Error unless every operand has the shape's extents and type bf16, its last dim is dense
// and all its rows are aligned to 16 bytes. lse must be f32 and dense.
void check_operands(const AttentionShape&, Direction, const SdpaOperands&);
// Returns the views of one part of a call.
SdpaOperands operands_of(const SdpaOperands& whole, const AttentionShape&, const SdpaPart&);

// Key of cuDNN's execution plans: everything that a plan depends on. Calls with equal keys share a
// plan.
struct SdpaKey {
  Direction direction;
  Determinism determinism;
  std::array<std::int64_t, 6> extents;  // B, T, H, G, D, number of keys
  SdpaMask mask;
  std::int64_t window;  // 0 means that the window hides no key
  double scale;
  // Strides in elements, in the order B, T, heads, also for lse. A dim with one element has the
  // stride of a dense tensor.
  std::array<std::array<std::int64_t, 3>, sdpa_operands> strides;
  auto operator<=>(const SdpaKey&) const = default;
};
SdpaKey key_of(const AttentionShape&, Direction, Determinism, const SdpaOperands&);

}  // namespace trireme::cuda
