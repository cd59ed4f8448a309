#include "kernels/cuda/kernels/views.hpp"

#include <algorithm>
#include <cstdlib>

#include "kernels/cuda/device.hpp"
#include "lib/base/error.hpp"

namespace trireme::cuda {

void refuse_type(DType t) {
  fail("run.backend = \"cuda\" computes in f32 and bf16, not in {}", name_of(t));
}

std::byte* lent(const View& workspace, std::size_t bytes, std::string_view operation) {
  require(workspace && workspace.span_bytes() >= bytes,
          "{} needs {} bytes of workspace, but has {}: use a smaller train.microbatch", operation,
          bytes, workspace ? workspace.span_bytes() : 0);
  return workspace.data;
}

void check_width(std::int64_t width) {
  constexpr std::int64_t widest = 8192;
  require(width <= widest, "norms on a GPU support a width of at most {}, not {}", widest, width);
}

// Throws Error if the router's keys for four tokens exceed 224 KiB, the shared memory of a block.
void check_experts(std::int64_t experts) {
  constexpr std::int64_t most = 14336;
  require(experts <= most, "a router on a GPU chooses among at most {} experts, not {}", most,
          experts);
}

void check_cached(const kernel::CachedAttention& o, const View& lent, std::int64_t query_bytes) {
  const auto T = o.q_THD.extent[0], G = o.k_TGD.extent[1], D = o.q_THD.extent[2];
  for (const ConstView& v : {ConstView(o.o_THD), o.q_THD, o.k_TGD, o.v_TGD,
                             ConstView(o.k_cache_PGD), ConstView(o.v_cache_PGD)})
    require(
        v.dims == 3 && v.extent[2] == D && (v.stride[2] == 1 || D == 1) && v.dtype == o.q_THD.dtype,
        "cached_attention: an operand {} [{}, {}, {}] is not {} with a dense last dim of {}",
        name_of(v.dtype), v.extent[0], v.extent[1], v.extent[2], name_of(o.q_THD.dtype), D);
  require(o.at >= 0 && G >= 1 && G <= o.q_THD.extent[1] &&
              o.fits(o.k_cache_PGD, cuda_properties().key_tile) &&
              o.fits(o.v_cache_PGD, cuda_properties().key_tile) &&
              o.k_cache_PGD.extent[0] == o.v_cache_PGD.extent[0],
          "cached_attention: positions {} to {} of {} key/value heads do not fit in {} rows", o.at,
          o.at + T - 1, G, o.k_cache_PGD.extent[0]);
  const auto bytes = static_cast<std::int64_t>(lent ? lent.span_bytes() : 0);
  require(query_bytes <= bytes,
          "cached_attention: {} positions and {} heads need {} bytes of workspace, but {} are "
          "lent. Divide the heads with parallel.seq, or generate with --no-cache",
          o.at + T, o.q_THD.extent[1], query_bytes, bytes);
}

bool rows_in_packs(std::initializer_list<ConstView> views) {
  return std::ranges::all_of(views, [](const ConstView& v) {
    if (!v) return true;
    const auto pack = static_cast<std::int64_t>(16 / bytes_of(v.dtype));
    bool whole = reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0 && v.extent[3] % pack == 0;
    for (std::size_t d = 0; d < 3; ++d)
      whole = whole && (v.extent[d] == 1 || v.stride[d] % pack == 0);
    return whole;
  });
}

bool mma_takes(const AttentionShape& s, std::initializer_list<ConstView> operands) {
  constexpr std::int64_t most_tokens = std::int64_t{1} << 28;
  return s.head_dim <= widest_mma_head &&
         std::max({s.tokens, s.keys(), std::abs(s.query_at - s.key_at)}) <= most_tokens &&
         std::ranges::all_of(operands,
                             [](const ConstView& v) { return !v || v.dtype == DType::bf16; }) &&
         rows_in_packs(operands);
}

AttentionDims dims_of(const AttentionShape& s) {
  require(s.head_dim <= widest_head, "attention on a GPU has a head dim of at most {}, not {}",
          widest_head, s.head_dim);
  require(s.batch * s.heads <= 65535,
          "attention on a GPU: {} samples x {} heads are more than 65535", s.batch, s.heads);
  constexpr std::int64_t hides_none = std::int64_t{1} << 62;
  return {s.batch,
          s.tokens,
          s.heads,
          s.kv_heads,
          s.head_dim,
          static_cast<float>(s.scale),
          s.window > 0 ? s.window : hides_none,
          s.keys(),
          s.query_at - s.key_at,
          static_cast<float>(s.softcap)};
}

}  // namespace trireme::cuda
