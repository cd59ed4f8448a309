#include "lib/shard/layout.hpp"

#include <algorithm>

#include "kernels/nf4.hpp"
#include "lib/base/error.hpp"
#include "lib/base/pattern.hpp"
#include "lib/comm/grid.hpp"
#include "lib/shard/pattern_advice.hpp"

namespace trireme {

Range intersection(Range a, Range b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

bool contains(Range r, std::int64_t element) {
  return r.begin <= element && element < r.end;
}

bool contains(Range r, Range other) {
  return r.begin <= other.begin && other.end <= r.end;
}

Range shard_range(std::int64_t elements, std::int64_t rank, std::int64_t group) {
  const auto n = elements / group;
  return {rank * n, (rank + 1) * n};
}

Range shard_range(const Segment& s, std::int64_t rank, std::int64_t group) {
  return shard_range(s.elements, rank, group);
}

std::int64_t padded(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

std::int64_t alignment_of(const Segment& s) {
  return s.kept == BaseType::nf4 ? nf4::weights : Layout::alignment;
}

std::vector<UnitId> all_units(const ModelSpec& spec) {
  std::vector<UnitId> units;
  for (std::size_t u = 0; u < spec.units.size(); ++u) units.push_back(UnitId::at(u));
  return units;
}

// Returns flags by ParamId: 1 if the pattern matches the parameter's name. Throws Error, naming
// `key`, if it matches none.
static std::vector<std::uint8_t> named(const ModelSpec& spec, const std::string& pattern,
                                       std::string_view key) {
  std::vector<std::uint8_t> hit;
  for (const auto& p : spec.params) hit.push_back(matches(pattern, p.name));
  if (std::ranges::find(hit, 1) == hit.end())
    fail("{}: the pattern \"{}\" matches no parameter; {}", key, pattern,
         advice_for_pattern(spec, pattern, [](const ParamSpec&) { return true; }));
  return hit;
}

static std::vector<std::uint8_t> decays(const ModelSpec& spec, const LayoutInput& in) {
  std::vector<std::uint8_t> d;
  for (const auto& p : spec.params) d.push_back(p.decay);
  for (const auto& pattern : in.no_decay) {
    const auto hit = named(spec, pattern, "optimizer.no_decay");
    for (std::size_t i = 0; i < d.size(); ++i) d[i] = d[i] && !hit[i];
  }
  return d;
}

bool can_be_sent_in_fp8(const ModelSpec& spec, ParamId id) {
  const auto& p = spec.params[id.index()];
  const auto* const adapter = spec.adapter_of(id);
  const bool dora = adapter && adapter->norms != ParamId{};
  const bool tied = spec.config.tied && id == spec.table;
  return p.products == ProductType::fp8 && p.kept != BaseType::nf4 && !dora && !tied;
}

// Returns true if the parameter belongs to experts that are distributed over ranks.
static bool over_ranks(const ModelSpec& spec, std::size_t p, const LayoutInput& in) {
  return spec.params[p].expert >= 0 && in.expert_ranks > 1;
}

// Returns the indices of the parameters that this rank holds, by UnitId.
static std::vector<std::vector<std::size_t>> held(const ModelSpec& spec, const LayoutInput& in) {
  std::vector<std::vector<std::size_t>> of_unit(spec.units.size());
  const auto mine = owned_experts(spec.config.experts, in.expert_rank, in.expert_ranks);
  for (std::size_t i = 0; i < spec.params.size(); ++i) {
    const auto& p = spec.params[i];
    if (!over_ranks(spec, i, in) || (mine.first <= p.expert && p.expert < mine.end))
      of_unit[p.unit.index()].push_back(i);
  }
  return of_unit;
}

// Properties that decide a parameter's segment. Parameters of a unit with equal signatures form one
// segment.
struct Signature {
  std::vector<std::uint8_t> frozen_by;  // by freeze pattern
  LearnsFrom learns_from = LearnsFrom::gradients;
  bool wide = false, of_experts = false;  // of_experts: see over_ranks()
  BaseType kept = BaseType::compute;
  bool sent_in_fp8 = false;
  bool operator==(const Signature&) const = default;
};

static std::vector<Signature> signatures(const ModelSpec& spec, const LayoutInput& in) {
  std::vector<Signature> all(spec.params.size());
  for (const auto& pattern : in.freeze) {
    const auto hit = named(spec, pattern, "freeze.pattern");
    for (std::size_t i = 0; i < all.size(); ++i) all[i].frozen_by.push_back(hit[i]);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].learns_from = spec.params[i].learns_from;
    all[i].wide = spec.params[i].wide;
    all[i].kept = spec.params[i].kept;
    all[i].of_experts = over_ranks(spec, i, in);
    all[i].sent_in_fp8 =
        in.gather_type == GatherType::fp8 && can_be_sent_in_fp8(spec, ParamId::at(i));
  }
  return all;
}

Layout make_layout(const ModelSpec& spec, const LayoutInput& in) {
  const auto decay = decays(spec, in);
  const auto signature = signatures(spec, in);
  const auto params = held(spec, in);
  Layout layout;
  layout.of_param.resize(spec.params.size());
  layout.of_unit.resize(spec.units.size());
  const auto add_segment = [&](UnitId u, const Signature& group) {
    Segment s;
    s.unit = u;
    s.name = spec.units[u.index()];
    s.learns_from = group.learns_from;
    s.wide = group.wide;
    s.of_experts = group.of_experts;
    s.kept = group.kept;
    s.sent_in_fp8 = group.sent_in_fp8;
    const auto alignment = alignment_of(s);
    const auto add_slots = [&](bool as_matrix, bool decayed) {
      for (const auto i : params[u.index()]) {
        const bool matrix = !in.as_matrices.empty() && in.as_matrices[i] != 0;
        if (matrix != as_matrix || (decay[i] != 0) != decayed || signature[i] != group) continue;
        const Slot slot{ParamId::at(i), s.elements, spec.params[i].shape.count(), decayed};
        s.elements = padded(s.elements + slot.count, alignment);
        layout.of_param[i] = {layout.segments.size(), s.slots.size(), slot};
        s.slots.push_back(slot);
      }
    };
    for (const bool decayed : {true, false}) add_slots(false, decayed);
    const auto others = s.elements;
    for (const bool decayed : {true, false}) add_slots(true, decayed);
    const bool has_matrices = s.elements > others;
    s.elements = padded(s.elements, in.ranks * alignment);
    s.matrices_begin = has_matrices ? others : s.elements;
    if (!layout.of_unit[u.index()].empty())
      s.name += fmt::format(" (segment {})", layout.of_unit[u.index()].size());
    layout.of_unit[u.index()].push_back(layout.segments.size());
    layout.segments.push_back(std::move(s));
  };
  for (const UnitId u : in.units) {
    std::vector<Signature> groups;
    for (const auto i : params[u.index()])
      if (std::ranges::find(groups, signature[i]) == groups.end()) groups.push_back(signature[i]);
    for (const auto& group : groups) add_segment(u, group);
  }
  return layout;
}

}  // namespace trireme
