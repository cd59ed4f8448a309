#include "lib/shard/layout.hpp"

#include <algorithm>

namespace trireme {

bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

static std::vector<std::uint8_t> decays(const ModelSpec& spec,
                                        const std::vector<std::string>& no_decay) {
  std::vector<std::uint8_t> d;
  for (const auto& p : spec.params) d.push_back(p.decay);
  for (const auto& pattern : no_decay) {
    bool hit = false;
    for (std::size_t i = 0; i < d.size(); ++i)
      if (matches(pattern, spec.params[i].name)) {
        d[i] = 0;
        hit = true;
      }
    require(hit,
            "optimizer.no_decay: the pattern \"{}\" matches no parameter; names look like \"{}\"",
            pattern, spec.params.back().name);
  }
  return d;
}

static std::int64_t round_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

Layout make_layout(const ModelSpec& spec, std::int64_t group,
                   const std::vector<std::string>& no_decay) {
  const auto decay = decays(spec, no_decay);
  Layout layout;
  layout.of_param.resize(spec.params.size());
  layout.of_unit.resize(spec.units.size());
  for (std::size_t u = 0; u < spec.units.size(); ++u) {
    Segment s{{static_cast<std::int32_t>(u)}, {}, 0, 0};
    for (const bool decayed : {true, false}) {
      for (std::size_t i = 0; i < spec.params.size(); ++i) {
        if (spec.params[i].unit != s.unit || (decay[i] != 0) != decayed) continue;
        const Slot slot{{static_cast<std::int32_t>(i)}, s.elements, spec.params[i].shape.count()};
        s.elements = round_up(s.elements + slot.count, Layout::alignment);
        s.slots.push_back(slot);
        layout.of_param[i] = {layout.segments.size(), slot};
      }
      if (decayed) s.decayed = s.elements;
    }
    s.elements = round_up(s.elements, group * Layout::alignment);
    layout.of_unit[u].push_back(layout.segments.size());
    layout.segments.push_back(std::move(s));
  }
  return layout;
}

}  // namespace trireme
