#include "lib/plan/rank_kinds.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "lib/base/pattern.hpp"
#include "lib/ops/heads.hpp"
#include "lib/ops/sequence_layout.hpp"

namespace trireme {

// Returns what distinguishes the attention of a sequence-parallel rank from others: its positions
// and heads. Up to `fewest_heads` ranks have the same positions and divide the heads.
static std::vector<std::int64_t> kind_of_heads(const ModelConfig& c, std::int64_t fewest_heads,
                                               int rank, int ranks) {
  const ops::Heads heads{c.heads, c.kv_heads, c.head_dim};
  const int share = ops::ranks_with_heads(ranks, fewest_heads);
  std::vector<std::int64_t> kind{rank / share};  // number of its positions' group
  for (const auto& g : head_groups(heads, head_share(heads, rank % share, share)))
    kind.insert(kind.end(), {g.query.begin, g.query.count, g.kv.begin, g.kv.count});
  return kind;
}

// Returns the kind of each share of the experts: the number of experts, and which of their
// parameters the patterns match.
static std::vector<std::string> kinds_of_experts(const PlanInput& in) {
  const int ranks = in.grid.expert;
  std::vector<std::string> kinds(static_cast<std::size_t>(ranks));
  if (ranks == 1) return kinds;
  const auto& s = in.setup;
  auto patterns = s.segments;
  patterns.insert(patterns.end(), s.optimizer.no_decay.begin(), s.optimizer.no_decay.end());
  const auto& by_adamw = s.optimizer.adamw_patterns;
  patterns.insert(patterns.end(), by_adamw.begin(), by_adamw.end());
  for (const auto& rule : s.freeze) patterns.push_back(rule.pattern);
  const auto spec = patterns.empty() ? ModelSpec{} : make_spec(s.model, s.adapter);
  for (int share = 0; share < ranks; ++share) {
    const auto own = owned_experts(s.model.experts, share, ranks);
    auto& kind = kinds[static_cast<std::size_t>(share)];
    kind = std::to_string(own.count());
    for (const auto& p : spec.params)
      if (own.first <= p.expert && p.expert < own.end)
        for (const auto& pattern : patterns) kind += matches(pattern, p.name) ? '+' : '-';
  }
  return kinds;
}

RankKinds::RankKinds(const PlanInput& in) : grid_(in.grid) {
  const auto of_experts = kinds_of_experts(in);
  std::vector<std::vector<std::int64_t>> of_heads;
  const auto heads = heads_of_seq(in.setup);
  for (int s = 0; s < grid_.seq; ++s) {
    auto& kind = of_heads.emplace_back(kind_of_heads(in.setup.model, heads, s, grid_.seq));
    const auto* const teacher = teacher_of(in.setup);
    if (!teacher) continue;
    const auto of_teacher = kind_of_heads(teacher->model, heads, s, grid_.seq);
    kind.insert(kind.end(), of_teacher.begin(), of_teacher.end());
  }
  std::map<std::pair<std::vector<std::int64_t>, std::string>, int> known;
  std::vector<int> places;
  for (int place = 0; place < std::lcm(grid_.seq, grid_.expert); ++place) {
    const auto [it, fresh] =
        known.try_emplace({of_heads[static_cast<std::size_t>(place % grid_.seq)],
                           of_experts[static_cast<std::size_t>(place % grid_.expert)]},
                          std::ssize(places));
    if (fresh) places.push_back(place);
    of_place_.push_back(it->second);
  }
  of_stage_ = static_cast<int>(places.size());
  for (int stage = 0; stage < grid_.pipe; ++stage)
    for (const int place : places) ranks_.push_back(stage * grid_.places() + place);
}

int RankKinds::of(int rank) const {
  const auto place = static_cast<std::size_t>(grid_.place(rank)) % of_place_.size();
  return rank / grid_.places() * of_stage_ + of_place_[place];
}

}  // namespace trireme
