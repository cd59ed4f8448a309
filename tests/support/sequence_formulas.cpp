#include "tests/support/sequence_formulas.hpp"

#include <algorithm>

#include "lib/ops/heads.hpp"
#include "lib/ops/sequence_layout.hpp"
#include "tests/support/mixture_formulas.hpp"

namespace trireme {

namespace {

// Ranks of seq that share out heads, as many as divide them and have one each; this rank's place
// among them; their group's place among such groups, which share out positions.
struct SeqPlace {
  explicit SeqPlace(const RankStep& s) {
    for (int n = 1; n <= s.grid.seq; ++n)
      if (s.grid.seq % n == 0 && n <= s.spec.config.heads) ranks = n;
    rank = s.at.seq % ranks;
    group = s.at.seq / ranks;
    groups = s.grid.seq / ranks;
  }
  int ranks = 1, rank = 0, group = 0, groups = 1;
};

std::int64_t window_of_block(const ModelConfig& c, std::int64_t layer) {
  const bool all = c.window_layers.empty();
  return all || std::ranges::count(c.window_layers, layer) > 0 ? c.window : 0;
}

ops::SequenceLayout layout_of(const RankStep& s) {
  return {s.context, s.grid.seq, s.spec.config.heads, 1, s.key_tile};
}

// The first key of the tiles that a block of queries sees, which begins at `query`.
std::int64_t first_key(const RankStep& s, std::int64_t query, std::int64_t window) {
  return window == 0 ? 0 : std::max<std::int64_t>(0, query + 1 - window) / s.key_tile * s.key_tile;
}

// Of `owner`'s keys, how many `group` gets: from the first to the last that it sees of each chunk.
std::int64_t keys_needed(const RankStep& s, int group, int owner, std::int64_t window) {
  const auto layout = layout_of(s);
  std::int64_t sum = 0;
  for (int c = 0; c < layout.chunks(); ++c) {
    std::int64_t first = layout.tokens(), end = 0;
    for (int q = c; q < layout.chunks(); ++q) {
      const auto queries = layout.block(group, q);
      const auto begin = std::max(first_key(s, queries.begin, window), layout.chunk(c).begin),
                 last = std::min(queries.end, layout.chunk(c).end);
      if (begin >= last) continue;
      first = std::min(first, begin);
      end = std::max(end, last);
    }
    const auto own = layout.block(owner, c);
    for (auto k = own.begin; k < own.end; ++k) sum += k >= first && k < end;
  }
  return sum;
}

ops::HeadShare heads_of(const RankStep& s, int rank, int ranks) {
  const auto& c = s.spec.config;
  return ops::head_share({c.heads, c.kv_heads, c.head_dim}, rank, ranks);
}

}  // namespace

std::int64_t seq_traffic(const RankStep& s) {
  const auto& c = s.spec.config;
  const SeqPlace at(s);
  const auto own = heads_of(s, at.rank, at.ranks);
  std::int64_t kv_of_others = -own.kv.count;
  for (int d = 0; d < at.ranks; ++d) kv_of_others += heads_of(s, d, at.ranks).kv.count;
  const auto hq = own.query.count, hk = own.kv.count, others = c.heads - hq;
  const auto forward = others + 2 * kv_of_others + (at.ranks - 1) * hq;
  const auto compute = static_cast<std::int64_t>(bytes_of(s.compute)),
             master = static_cast<std::int64_t>(bytes_of(s.master));
  std::int64_t sum = 0;
  for (const auto& p : s.parts) {
    const auto* b = block_of(s, p);
    if (!b) continue;
    const auto passes = passes_of(s, p);
    // The gradient of attention's input is wanted where something before it trains; sinks need
    // that of its result alone.
    bool wanted = p.passes_down;
    for (const ParamId id :
         {b->attention_norm, b->attention_norm_bias, b->qkv, b->qkv_bias, b->q_norm, b->k_norm})
      wanted = wanted || trains(s, id);
    const bool sinks = b->sinks != ParamId{} && s.trainable[b->sinks.index()];
    std::int64_t of_heads = passes.forward * forward;
    if (wanted || sinks) of_heads += passes.backward * others;
    if (wanted) of_heads += passes.backward * (at.ranks - 1) * (hq + 2 * hk);
    sum += of_heads * s.positions * compute;
    // Keys and values to groups that see them, forward and backward, and gradients from this one.
    const auto window = window_of_block(c, b - s.spec.blocks.data());
    for (int g = 0; g < at.groups; ++g) {
      if (g == at.group) continue;
      const auto rows = 2 * hk * s.samples;
      sum += (passes.forward + (wanted ? passes.backward : 0)) * rows *
             keys_needed(s, g, at.group, window) * compute;
      if (wanted) sum += passes.backward * rows * keys_needed(s, at.group, g, window) * master;
    }
  }
  return sum * c.head_dim;
}

double attention_flops_of(const RankStep& s, std::int64_t layer) {
  const auto& c = s.spec.config;
  const SeqPlace at(s);
  const auto own = heads_of(s, at.rank, at.ranks).query.count;
  const auto layout = layout_of(s);
  const auto keys = window_of_block(c, layer);
  const auto window = static_cast<double>(keys);
  const auto square = [](double x) { return x > 0 ? x * x : 0; };
  double twice = 0;  // the pairs
  for (int i = 0; i < layout.chunks(); ++i) {
    const auto b = layout.block(at.group, i);
    const auto from = static_cast<double>(at.groups == 1 ? 0 : first_key(s, b.begin, keys)),
               begin = static_cast<double>(b.begin) - from, end = static_cast<double>(b.end) - from;
    twice += end * end - begin * begin;
    if (window > 0) twice -= square(end - window) - square(begin - window);
  }
  return static_cast<double>(s.samples * own * c.head_dim) * twice;
}

}  // namespace trireme
