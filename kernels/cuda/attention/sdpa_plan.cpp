#include "kernels/cuda/attention/sdpa_plan.hpp"

#include <algorithm>

#include "lib/base/error.hpp"

namespace trireme::cuda {
namespace {

constexpr std::int64_t rounded(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

// Returns the maximum workspace, in bytes, that an engine of cuDNN 9.19 needs in one call. The
// backward pass stores rowsum(do o). It stores dq in f32, and the engine for Ampere stores dq a
// second time, rounded up. If several query heads share a key/value head, it also stores dk and dv
// of every query head. The deterministic backward pass stores all of ds in bf16 instead of dq.
std::size_t call_bytes(const AttentionShape& s, Direction direction, Determinism determinism) {
  std::int64_t bytes = sdpa_alignment + 256;
  if (direction == Direction::backward) {
    const auto heads = s.batch * s.heads, rows = heads * s.tokens;
    bytes += 4 * rows;
    // With few queries, the engines for architecture 100 store dk and dv in f32. They do not
    // support wider heads.
    const std::int64_t shared = s.tokens < 2 * s.head_dim && s.head_dim <= 128 ? 8 : 4;
    if (s.heads != s.kv_heads) bytes += shared * heads * s.keys() * s.head_dim;
    if (determinism == Determinism::on)
      bytes += 2 * heads * rounded(s.tokens, 64) * rounded(s.keys(), 128);
    else
      bytes += 4 * (rows + heads * rounded(s.tokens, 64)) * s.head_dim;
  }
  return static_cast<std::size_t>(bytes);
}

bool is_lse(std::size_t operand) {
  return operand == sdpa_lse;
}
bool on_keys(std::size_t operand) {
  return operand == sdpa_k || operand == sdpa_v || operand == sdpa_dk || operand == sdpa_dv;
}

constexpr const char* operand_names[] = {"q", "k", "v", "o", "lse", "do", "dq", "dk", "dv"};

}  // namespace

std::optional<SdpaMask> sdpa_mask(const AttentionShape& s) {
  const auto keys_end = s.key_at + s.keys(), queries_end = s.query_at + s.tokens;
  if (keys_end == queries_end && s.key_at == s.query_at) return SdpaMask::causal;
  if (keys_end == queries_end && s.key_at < s.query_at) return SdpaMask::causal_at_end;
  const bool in_window = s.window == 0 || queries_end - s.key_at <= s.window;
  if (keys_end <= s.query_at + 1 && in_window) return SdpaMask::none;
  return {};
}

bool sdpa_supports(const AttentionShape& s, DType dtype, Direction direction, int sm) {
  const bool backward = direction == Direction::backward;
  const std::int64_t most_dim = backward && sm / 10 != sm_hopper / 10 ? 128 : 256;
  const std::int64_t least = backward ? 2 : 1;
  return s.softcap == 0 && sdpa_mask(s) && dtype == DType::bf16 && s.batch >= 1 &&
         s.tokens >= least && s.keys() >= least && s.kv_heads >= 1 && s.heads >= s.kv_heads &&
         s.heads % s.kv_heads == 0 && s.head_dim >= 8 && s.head_dim % 8 == 0 &&
         s.head_dim <= most_dim;
}

AttentionShape shape_of(const AttentionShape& whole, const SdpaPart& p) {
  auto s = whole;
  s.batch = p.samples;
  s.heads = whole.heads / whole.kv_heads * p.kv_heads;
  s.kv_heads = p.kv_heads;
  return s;
}

std::vector<SdpaPart> halves_of(const SdpaPart& p) {
  auto first = p, second = p;
  if (p.samples > 1) {
    first.samples = p.samples / 2;
    second.sample += first.samples;
    second.samples -= first.samples;
  } else if (p.kv_heads > 1) {
    first.kv_heads = p.kv_heads / 2;
    second.kv_head += first.kv_heads;
    second.kv_heads -= first.kv_heads;
  } else {
    return {};
  }
  return {first, second};
}

std::vector<SdpaPart> sdpa_parts(const AttentionShape& s, Direction direction,
                                 Determinism determinism, std::size_t limit) {
  const auto fits = [&](std::int64_t samples, std::int64_t kv_heads) {
    return call_bytes(shape_of(s, {0, samples, 0, kv_heads}), direction, determinism) <= limit;
  };
  // The parts are as few as possible and of about equal size. They have at most two sizes, which
  // need two plans.
  std::int64_t batches = 1, groups = 1;
  while (batches < s.batch && !fits((s.batch + batches - 1) / batches, s.kv_heads)) ++batches;
  if (batches == s.batch)
    while (groups < s.kv_heads && !fits(1, (s.kv_heads + groups - 1) / groups)) ++groups;
  const auto samples = (s.batch + batches - 1) / batches;
  const auto kv_heads = (s.kv_heads + groups - 1) / groups;
  std::vector<SdpaPart> parts;
  for (std::int64_t b = 0; b < s.batch; b += samples)
    for (std::int64_t g = 0; g < s.kv_heads; g += kv_heads)
      parts.push_back({b, std::min(samples, s.batch - b), g, std::min(kv_heads, s.kv_heads - g)});
  return parts;
}

std::size_t sdpa_workspace(const AttentionShape& s, Direction direction, Determinism determinism,
                           std::size_t limit) {
  // The first part is the largest.
  const auto first = sdpa_parts(s, direction, determinism, limit).front();
  return call_bytes(shape_of(s, first), direction, determinism);
}

void check_operands(const AttentionShape& s, Direction direction, const SdpaOperands& operands) {
  require(sdpa_supports(s, DType::bf16, direction),
          "cuDNN attention does not support {} tokens and {} keys with heads {}/{} of dim {}: each "
          "key/value head needs the same number of query heads, the dim must be a multiple of 8 up "
          "to 256, and the backward pass needs more than one token",
          s.tokens, s.keys(), s.heads, s.kv_heads, s.head_dim);
  for (std::size_t i = 0; i < operands_of(direction); ++i) {
    const auto& v = operands[i];
    const auto* name = operand_names[i];
    if (is_lse(i)) {
      require(v.dims == 3 && v.dtype == DType::f32 && v.extent[0] == s.batch &&
                  v.extent[1] == s.heads && v.extent[2] == s.tokens && v.dense(),
              "cuDNN attention: lse is not a dense f32 [{}, {}, {}]", s.batch, s.heads, s.tokens);
      continue;
    }
    const auto heads = on_keys(i) ? s.kv_heads : s.heads;
    const auto tokens = on_keys(i) ? s.keys() : s.tokens;
    require(v.dims == 4 && v.extent[0] == s.batch && v.extent[1] == tokens &&
                v.extent[2] == heads && v.extent[3] == s.head_dim,
            "cuDNN attention: {} [{}, {}, {}, {}] is not [{}, {}, {}, {}]", name, v.extent[0],
            v.extent[1], v.extent[2], v.extent[3], s.batch, tokens, heads, s.head_dim);
    require(v.dtype == DType::bf16, "cuDNN attention: {} is {}, not bf16", name, name_of(v.dtype));
    require(v.stride[3] == 1,
            "cuDNN attention: the last dim of {} has stride {}: copy it into a dense view first",
            name, v.stride[3]);
    bool aligned = reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0;
    for (std::size_t d = 0; d < 3; ++d)
      aligned = aligned && (v.extent[d] == 1 || v.stride[d] % 8 == 0);
    require(aligned,
            "cuDNN attention: {} at {} with strides {}, {}, {} is not aligned to 16 bytes in every "
            "row: copy it into a dense view first",
            name, static_cast<const void*>(v.data), v.stride[0], v.stride[1], v.stride[2]);
  }
}

SdpaOperands operands_of(const SdpaOperands& whole, const AttentionShape& s, const SdpaPart& p) {
  const auto group = s.heads / s.kv_heads;
  auto part = whole;
  for (std::size_t i = 0; i < sdpa_operands; ++i) {
    if (!part[i]) continue;
    const auto unit = on_keys(i) ? 1 : group;
    part[i] = part[i]
                  .slice(0, p.sample, p.samples)
                  .slice(is_lse(i) ? 1 : 2, p.kv_head * unit, p.kv_heads * unit);
  }
  return part;
}

SdpaKey key_of(const AttentionShape& s, Direction direction, Determinism determinism,
               const SdpaOperands& operands) {
  // The forward pass gives equal bits with either setting.
  SdpaKey key{direction,
              direction == Direction::forward ? Determinism::on : determinism,
              {s.batch, s.tokens, s.heads, s.kv_heads, s.head_dim, s.keys()},
              sdpa_mask(s).value_or(SdpaMask::causal),
              s.window < s.query_at + s.tokens - s.key_at ? s.window : 0,
              s.scale,
              {}};
  for (std::size_t i = 0; i < operands_of(direction); ++i) {
    const auto& v = operands[i];
    const auto heads = on_keys(i) ? s.kv_heads : s.heads;
    const auto tokens = on_keys(i) ? s.keys() : s.tokens;
    // The stride of a dim with one element may have any value, so it is replaced by that of a dense
    // tensor.
    const std::array<std::int64_t, 3> dense =
        is_lse(i) ? std::array{heads * s.tokens, std::int64_t{1}, s.tokens}
                  : std::array{tokens * heads * s.head_dim, heads * s.head_dim, s.head_dim};
    const std::array<std::size_t, 3> dims =
        is_lse(i) ? std::array<std::size_t, 3>{0, 2, 1} : std::array<std::size_t, 3>{0, 1, 2};
    for (std::size_t d = 0; d < 3; ++d)
      key.strides[i][d] = v.extent[dims[d]] == 1 ? dense[d] : v.stride[dims[d]];
  }
  return key;
}

}  // namespace trireme::cuda
