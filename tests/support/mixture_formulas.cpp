#include "tests/support/mixture_formulas.hpp"

#include <algorithm>

namespace trireme {

namespace {

// Experts [first, end): so many for each share, one more for the first ones.
struct ShareOfExperts {
  std::int64_t first, end;
};

ShareOfExperts share_of(const RankStep& s, std::int64_t share) {
  const auto experts = s.spec.config.experts, ranks = std::int64_t{s.grid.expert};
  const auto begin = [&](std::int64_t d) {
    return d * (experts / ranks) + std::min(d, experts % ranks);
  };
  return {begin(share), begin(share + 1)};
}

// Rows of a rank that its tokens' choices are.
std::int64_t rows_of_rank(const RankStep& s) {
  return s.positions * s.spec.config.experts_per_token;
}

// Of a rank, for experts below x.
std::int64_t rows_below(const RankStep& s, std::int64_t x) {
  return rows_of_rank(s) * x / s.spec.config.experts;
}

std::int64_t own_share(const RankStep& s) {
  return (s.at.data * s.grid.seq + s.at.seq) % s.grid.expert;
}

// That a share of the experts takes in a round.
std::int64_t rows_of_round(const RankStep& s, const ShareOfExperts& d) {
  const auto all = rows_of_rank(s) * s.grid.expert, experts = s.spec.config.experts;
  const auto even = (5 * all * (d.end - d.first) + 4 * experts - 1) / (4 * experts);
  return std::max<std::int64_t>(1, std::min(all, s.rows_of_round > 0 ? s.rows_of_round : even));
}

// Of one rank's rows for a share, those that are in its first round: rows lie by expert, of one
// expert by the rank that they come from.
std::int64_t rows_in_first(const RankStep& s, const ShareOfExperts& d, std::int64_t rank) {
  std::int64_t sum = 0;
  for (auto x = d.first; x < d.end; ++x) {
    const auto n = rows_below(s, x + 1) - rows_below(s, x);
    const auto before = (rows_below(s, x) - rows_below(s, d.first)) * s.grid.expert + rank * n;
    sum += std::clamp<std::int64_t>(rows_of_round(s, d) - before, 0, n);
  }
  return sum;
}

bool any_trains(const RankStep& s, std::initializer_list<ParamId> params) {
  return std::ranges::any_of(params, [&](ParamId p) { return trains(s, p); });
}

bool any_train(const RankStep& s, const std::vector<ParamId>& params) {
  return std::ranges::any_of(params, [&](ParamId p) { return trains(s, p); });
}

// Does the gradient of what experts read flow on, to what lies before them?
bool wants_input(const RankStep& s, const StagePart& part, const BlockParams& b) {
  return part.passes_down ||
         any_trains(s, {b.attention_norm, b.attention_norm_bias, b.qkv, b.qkv_bias, b.q_norm,
                        b.k_norm, b.sinks, b.projection, b.projection_bias, b.attention_out_norm,
                        b.attention_out_norm_bias, b.ffn_norm, b.ffn_norm_bias});
}

bool has_gradients(const RankStep& s, const StagePart& part, const BlockParams& b) {
  return wants_input(s, part, b) ||
         any_trains(s, {b.router, b.logit_bias, b.shared_gate, b.shared_in, b.shared_out}) ||
         any_train(s, b.expert_in) || any_train(s, b.expert_in_bias) ||
         any_train(s, b.expert_out) || any_train(s, b.expert_out_bias);
}

}  // namespace

const BlockParams* block_of(const RankStep& s, const StagePart& part) {
  const auto it = std::ranges::find(s.spec.blocks, part.units[0].unit, &BlockParams::unit);
  return it == s.spec.blocks.end() ? nullptr : &*it;
}

Passes passes_of(const RankStep& s, const StagePart& part) {
  Passes n;
  for (const auto& i : s.program) {
    if (i.chunk != part.chunk) continue;
    n.forward += i.what == Do::forward;
    n.backward += part.needed && (i.what == Do::backward || i.what == Do::input_gradients);
  }
  if (s.recompute == Recompute::block && block_of(s, part)) n.forward += n.backward;
  return n;
}

ExpertRows expert_rows(const RankStep& s) {
  if (s.spec.config.experts == 0) return {};
  const auto own = share_of(s, own_share(s));
  ExpertRows rows{(rows_below(s, own.end) - rows_below(s, own.first)) * s.grid.expert};
  if (s.grid.expert > 1) rows.later = rows.all - std::min(rows.all, rows_of_round(s, own));
  return rows;
}

std::int64_t expert_traffic(const RankStep& s) {
  const auto ranks = std::int64_t{s.grid.expert};
  if (ranks == 1) return 0;
  const auto own = own_share(s);
  std::int64_t to_others = 0, later = 0, back = 0;
  for (std::int64_t d = 0; d < ranks; ++d) {
    const auto share = share_of(s, d);
    const auto n = rows_below(s, share.end) - rows_below(s, share.first);
    if (d == own) {
      back = (ranks - 1) * n;
      continue;
    }
    to_others += n;
    later += n - rows_in_first(s, share, own);
  }
  const auto channels = s.spec.config.width * static_cast<std::int64_t>(bytes_of(s.compute)),
             weight = static_cast<std::int64_t>(bytes_of(s.master));
  std::int64_t sum = 0;
  for (const auto& part : s.parts) {
    const auto* b = block_of(s, part);
    if (!b || b->expert_in.empty()) continue;
    const auto passes = passes_of(s, part);
    sum += passes.forward * ((ranks - 1) * s.spec.config.experts * 8 +
                             to_others * (channels + weight) + back * channels);
    if (!has_gradients(s, part, *b)) continue;
    sum += passes.backward * (to_others * channels + back * weight + later * (channels + weight));
    if (wants_input(s, part, *b)) sum += passes.backward * back * channels;
  }
  return sum;
}

std::int64_t choices_traffic(const RankStep& s) {
  std::int64_t sum = 0;
  for (const auto& part : s.parts)
    if (const auto* b = block_of(s, part); b && !b->expert_in.empty() && s.counts_samples)
      sum += passes_of(s, part).forward * (s.grid.seq - 1) * rows_of_rank(s) * 4;
  return sum;
}

}  // namespace trireme
