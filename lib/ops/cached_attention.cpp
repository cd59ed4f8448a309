#include "lib/ops/cached_attention.hpp"

#include <algorithm>

#include "lib/ops/collective.hpp"
#include "lib/ops/sequence_layout.hpp"

namespace trireme::ops {

namespace {

// Returns the keys (which = 0) or values (1) of a cache [2, G, P, D] as [P, G, D].
View cache_PGD(const Tensor& kept, std::int64_t which) {
  const auto& s = kept.shape();
  View v = kept.slice(which * s[1] * s[2] * s[3], {s[1], s[2], s[3]}).view();
  std::swap(v.extent[0], v.extent[1]);
  std::swap(v.stride[0], v.stride[1]);
  return v;
}

// Returns the view without its first dim. The entries after the last dim must be 0, because views
// of equal shape must compare equal.
View without_first_dim(View v) {
  std::shift_left(v.extent.begin(), v.extent.end(), 1);
  std::shift_left(v.stride.begin(), v.stride.end(), 1);
  v.extent.back() = v.stride.back() = 0;
  --v.dims;
  return v;
}

View sample(const View& v_BTHD, std::int64_t b, std::int64_t rows) {
  return without_first_dim(v_BTHD.slice(0, b, 1).slice(1, 0, rows));
}

// Returns the number of positions that have separate rows in the cache. With a window, rows are
// reused, and their number is the window rounded up to whole key tiles.
std::int64_t rows_kept(const Backend& b, std::int64_t positions, std::int64_t window) {
  const auto tile = std::max<std::int64_t>(1, b.properties().key_tile);
  return window > 0 ? std::min(positions, (window + tile - 1) / tile * tile) : positions;
}

}  // namespace

void fill(const Run& run, const CachedBlock& block, const View& kv_BTGD, std::int64_t at) {
  auto& kept = *run.cached->kept_B[0];
  const auto heads = kv_BTGD.extent[2] / 2, dim = kv_BTGD.extent[3], all = run.cached->rows;
  const auto rows = rows_kept(run.backend, kept.positions, block.window);
  expect(kv_BTGD.extent[0] == 1 && all <= kept.positions, "a sample's positions fit");
  if (kept.of_block.size() <= block.number) kept.of_block.resize(block.number + 1);
  auto& tensor = kept.of_block[block.number];
  if (at == 0)
    tensor = Tensor::empty(run.backend, {2, heads, rows, dim}, kv_BTGD.dtype, MemoryKind::saved);
  const auto end = std::min(all, at + kv_BTGD.extent[1]);
  for (auto from = std::max(at, all - rows), to = from; from < end; from = to) {
    to = std::min(end, (from / rows + 1) * rows);
    for (const int which : {0, 1})
      run.backend.put(
          Queue::compute,
          kernel::Copy{
              .dst = cache_PGD(tensor, which).slice(0, from % rows, to - from),
              .src = sample(kv_BTGD.slice(1, from - at, to - from).slice(2, which * heads, heads),
                            0, to - from)});
  }
}

Tensor extend(const Run& run, const Heads& heads, const CachedBlock& block, const Tensor& qkv) {
  const auto batch = qkv.shape()[0];
  const auto ranks = head_ranks(run);
  const auto share = head_share(heads, ranks.rank, ranks.size);
  const auto all = unpack(qkv, heads);
  const Tensor o = Tensor::empty(run.backend, {batch, 1, share.query.count * heads.dim},
                                 qkv.dtype(), MemoryKind::transient);
  const View o_BTHD = o.view().reshaped({batch, 1, share.query.count, heads.dim});
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto& kept = run.cached->kept_B[static_cast<std::size_t>(b)]->of_block[block.number];
    const auto of = [&](const View& v, HeadRange r) {
      return sample(v, b, 1).slice(1, r.begin, r.count);
    };
    for (const auto& g : head_groups(heads, share)) {
      const HeadRange q{share.query.begin + g.query.begin, g.query.count},
          kv{share.kv.begin + g.kv.begin, g.kv.count};
      run.backend.put(
          Queue::compute,
          kernel::CachedAttention{.o_THD = of(o_BTHD, g.query),
                                  .k_cache_PGD = cache_PGD(kept, 0).slice(1, g.kv.begin, kv.count),
                                  .v_cache_PGD = cache_PGD(kept, 1).slice(1, g.kv.begin, kv.count),
                                  .q_THD = of(all.q_BTHD, q),
                                  .k_TGD = of(all.k_BTGD, kv),
                                  .v_TGD = of(all.v_BTGD, kv),
                                  .at = run.cached->at_B[static_cast<std::size_t>(b)],
                                  .scale = block.scores.scale_of(heads.dim),
                                  .window = block.window,
                                  .sink_H = sinks_of(block.sink_H, q),
                                  .softcap = block.scores.softcap});
    }
  }
  return ranks.size > 1 ? all_heads(run, heads, o) : o;
}

}  // namespace trireme::ops
