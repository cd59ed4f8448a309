#include "tests/support/formulas.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "kernels/arena.hpp"
#include "lib/ops/heads.hpp"
#include "lib/ops/sequence_layout.hpp"
#include "tests/support/mixture_formulas.hpp"

namespace trireme {

namespace {

std::int64_t count(const RankStep& s, Do what) {
  return std::ranges::count(s.program, what, &Instruction::what);
}

std::int64_t bytes(DType t) {
  return static_cast<std::int64_t>(bytes_of(t));
}

bool is_tied(const RankStep& s, UnitId u) {
  return s.spec.config.tied && u == s.spec.table_unit;
}

// Of the model: the two uses of a tied table.
bool has_both_ends(const RankStep& s) {
  const auto borrows = [&](Use use) {
    return std::ranges::any_of(s.parts, [&](const StagePart& p) {
      return std::ranges::any_of(
          p.units, [&](const Borrow& b) { return b.unit == s.spec.table_unit && b.use == use; });
    });
  };
  return borrows(Use::own) && borrows(Use::tied);
}

// All gathers, by unit: turns of one unit in a row share one, or all turns do.
std::vector<UnitId> gathers_of(const RankStep& s) {
  std::vector<UnitId> gathers;
  for (const auto& t : s.turns) {
    if (!t.weights) continue;
    for (const auto& b : s.parts[t.part].units) {
      const bool shared = s.gather_once ? std::ranges::find(gathers, b.unit) != gathers.end()
                                        : !gathers.empty() && gathers.back() == b.unit;
      if (!shared) gathers.push_back(b.unit);
    }
  }
  return gathers;
}

std::int64_t scatters_of(const RankStep& s, UnitId u) {
  std::map<Use, std::int64_t> scatters;
  for (const auto& t : s.turns)
    for (const auto& b : s.parts[t.part].units)
      if (t.gradients && b.unit == u) ++scatters[b.use];
  std::int64_t n = 0;
  for (const auto& [use, times] : scatters) n += s.reduce_once ? 1 : times;
  return n;
}

bool trains(const RankStep& s, const Segment& g) {
  return s.trainable[g.slots[0].param.index()] != 0;
}

// That weights are computed with.
DType type_of(const RankStep& s, const Segment& g) {
  return g.learns_from == LearnsFrom::loads ? s.master : s.compute;
}

std::int64_t shard_traffic(const RankStep& s) {
  const auto gathers = gathers_of(s);
  std::int64_t sum = 0;
  for (const auto& g : s.layout.segments) {
    const auto [ranks, copies] = s.of(g);
    const auto n = g.elements / ranks;
    sum += (ranks - 1) * n * bytes(type_of(s, g)) * std::ranges::count(gathers, g.unit);
    if (!trains(s, g)) continue;
    sum += (ranks - 1) * n * bytes(s.reduce) * scatters_of(s, g.unit);
    // Another stage with a tied table gets the sum from the first.
    if (is_tied(s, g.unit) && s.at.pipe > 0) continue;
    sum += (copies - 1) * n / copies * (bytes(s.reduce) + bytes(s.master));
  }
  return sum;
}

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
  return {s.spec.config.context, s.grid.seq, s.spec.config.heads, 1, s.key_tile};
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

std::int64_t seq_traffic(const RankStep& s) {
  const auto& c = s.spec.config;
  const SeqPlace at(s);
  const ops::Heads heads{c.heads, c.kv_heads, c.head_dim};
  const auto own = ops::head_share(heads, at.rank, at.ranks);
  std::int64_t kv_of_others = -own.kv.count;
  for (int d = 0; d < at.ranks; ++d) kv_of_others += ops::head_share(heads, d, at.ranks).kv.count;
  const auto hq = own.query.count, hk = own.kv.count, others = c.heads - hq;
  const auto forward = others + 2 * kv_of_others + (at.ranks - 1) * hq;
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
      wanted = wanted || (id != ParamId{} && s.trainable[id.index()]);
    const bool sinks = b->sinks != ParamId{} && s.trainable[b->sinks.index()];
    std::int64_t of_heads = passes.forward * forward;
    if (wanted || sinks) of_heads += passes.backward * others;
    if (wanted) of_heads += passes.backward * (at.ranks - 1) * (hq + 2 * hk);
    sum += of_heads * s.positions * bytes(s.compute);
    // Keys and values to groups that see them, forward and backward, and gradients from this one.
    const auto window = window_of_block(c, b - s.spec.blocks.data());
    for (int g = 0; g < at.groups; ++g) {
      if (g == at.group) continue;
      const auto rows = 2 * hk * s.samples;
      sum += (passes.forward + (wanted ? passes.backward : 0)) * rows *
             keys_needed(s, g, at.group, window) * bytes(s.compute);
      if (wanted)
        sum += passes.backward * rows * keys_needed(s, at.group, g, window) * bytes(s.master);
    }
  }
  return sum * c.head_dim;
}

std::int64_t pipe_traffic(const RankStep& s) {
  const auto messages = count(s, Do::send_activation) + count(s, Do::send_gradient);
  auto sum = messages * s.positions * s.spec.config.width * bytes(s.compute);
  for (const auto& g : s.layout.segments)
    if (is_tied(s, g.unit) && trains(s, g) && !has_both_ends(s))
      sum += g.elements / s.stage.ranks * bytes(s.master);
  return sum;
}

std::size_t block(std::int64_t elements, DType t) {
  const auto n = static_cast<std::size_t>(elements) * bytes_of(t);
  return std::max<std::size_t>(1, (n + Arena::granule - 1) / Arena::granule) * Arena::granule;
}

// The most whole units held at once: those that a turn reads and those gathered ahead of it.
std::size_t most_gathered(const RankStep& s) {
  const auto gathers = gathers_of(s);
  const auto whole = [&](std::size_t from, std::size_t to) {
    std::size_t sum = 0;
    for (auto i = from; i < to; ++i)
      for (const auto k : s.layout.of_unit[gathers[i].index()])
        if (const auto& g = s.layout.segments[k]; s.of(g).ranks > 1)
          sum += block(g.elements, type_of(s, g));
    return sum;
  };
  if (s.gather_once) return whole(0, gathers.size());
  std::size_t most = 0, next = 0;  // gather
  for (const auto& t : s.turns) {
    if (!t.weights) continue;
    const auto& units = s.parts[t.part].units;
    if (next > 0 && gathers[next - 1] == units[0].unit) --next;  // shared with the turn before
    const auto begin = next;
    next += units.size();
    most = std::max(
        most, whole(begin, std::min(gathers.size(), next + static_cast<std::size_t>(s.prefetch))));
  }
  return most;
}

// The most whole gradients held at once: those a turn adds to, those that wait for the last
// microbatch, and those being scattered.
std::size_t most_whole_gradients(const RankStep& s) {
  using Key = std::pair<UnitId, Use>;
  std::map<Key, int> turns_left;
  for (const auto& t : s.turns)
    if (t.gradients)
      for (const auto& b : s.parts[t.part].units) ++turns_left[{b.unit, b.use}];
  const auto whole = [&](UnitId u) {
    std::size_t sum = 0;
    for (const auto k : s.layout.of_unit[u.index()])
      if (const auto& g = s.layout.segments[k]; trains(s, g) && s.of(g).ranks > 1)
        sum += block(g.elements, s.master);
    return sum;
  };
  std::size_t most = 0, now = 0;
  std::set<Key> begun;
  std::deque<std::size_t> leaving;
  for (const auto& t : s.turns) {
    if (!t.gradients) continue;
    for (const auto& b : s.parts[t.part].units)
      if (begun.insert({b.unit, b.use}).second) now += whole(b.unit);
    most = std::max(most, now);
    for (const auto& b : s.parts[t.part].units) {
      if (--turns_left[{b.unit, b.use}] > 0 && s.reduce_once) continue;
      begun.erase({b.unit, b.use});
      if (whole(b.unit) == 0) continue;
      for (; std::ssize(leaving) >= s.scatters; leaving.pop_front()) now -= leaving.front();
      leaving.push_back(whole(b.unit));
    }
  }
  return most;
}

}  // namespace

Axes::Traffic step_traffic(const RankStep& s) {
  return {shard_traffic(s), seq_traffic(s) + choices_traffic(s), pipe_traffic(s),
          expert_traffic(s)};
}

double step_flops(const RankStep& s) {
  const auto& c = s.spec.config;
  const auto t = static_cast<double>(s.positions), width = static_cast<double>(c.width);
  const SeqPlace at(s);
  const auto own =
      ops::head_share({c.heads, c.kv_heads, c.head_dim}, at.rank, at.ranks).query.count;
  // Of the triangle of pairs a window leaves out the smaller one behind it, where keys are read.
  const auto layout = layout_of(s);
  const auto pairs_of = [&](std::int64_t layer) {
    const auto window = static_cast<double>(window_of_block(c, layer));
    const auto square = [](double x) { return x > 0 ? x * x : 0; };
    double twice = 0;
    for (int i = 0; i < layout.chunks(); ++i) {
      const auto b = layout.block(at.group, i);
      const auto from = static_cast<double>(
                     at.groups == 1 ? 0 : first_key(s, b.begin, window_of_block(c, layer))),
                 begin = static_cast<double>(b.begin) - from,
                 end = static_cast<double>(b.end) - from;
      twice += end * end - begin * begin;
      if (window > 0) twice -= square(end - window) - square(begin - window);
    }
    return static_cast<double>(s.samples * own * c.head_dim) * twice;
  };
  const auto rows = expert_rows(s);
  const auto expert = static_cast<double>(c.expert_width) * width;  // weights of a third
  double sum = 0;
  for (const auto& p : s.parts) {
    const auto forwards = static_cast<double>(passes_of(s, p).forward),
               backwards = static_cast<double>(passes_of(s, p).backward);
    if (p.units[0].unit == s.spec.head_unit && p.gradient_in_forward)
      sum += forwards * 3 * 2 * t * width * static_cast<double>(c.vocab);
    const auto* b = block_of(s, p);
    if (!b) continue;
    const double pairs = pairs_of(b - s.spec.blocks.data());
    double weights = 0;
    for (const auto& param : s.spec.params)
      if (param.unit == b->unit && param.shape.dims() == 2 && param.expert < 0)
        weights += static_cast<double>(param.shape.count());
    double products = 2 * t * weights;
    if (!b->expert_in.empty()) {
      products += 2 * static_cast<double>(rows.all) * 3 * expert;
      sum += backwards * 2 * static_cast<double>(rows.later) * 2 * expert;
    }
    sum += forwards * (products + 2 * pairs) + backwards * (2 * products + 5 * pairs);
    // Each chunk forward once more: all but attention. Recompute leaves to it what ends a block.
    const auto qkv = static_cast<double>(s.spec.params[b->qkv.index()].shape.count());
    const bool whole = !b->expert_in.empty() || s.recompute == Recompute::block;
    if (s.in_chunks) sum += backwards * 2 * t * (whole ? qkv : weights);
  }
  return sum;
}

StateBytes state_bytes(const RankStep& s) {
  StateBytes most;
  const auto& c = s.spec.config;
  if (c.positions == Positions::rotary)
    most.weights += block(c.context * 2 * (c.head_dim / 2), s.master);
  for (const auto& g : s.layout.segments) {
    const auto n = g.elements / s.of(g).ranks;
    most.weights += block(n, s.master);
    if (type_of(s, g) != s.master) most.weights += block(n, s.compute);
    if (!trains(s, g)) continue;
    most.optimizer += static_cast<std::size_t>(s.state_arrays) * block(n, s.master);
    most.gradients += (is_tied(s, g.unit) ? 2 : 1) * block(n, s.master);
  }
  if (s.stage.ranks == 1) return most;
  most.gathered = most_gathered(s);
  most.gradients += most_whole_gradients(s);
  return most;
}

}  // namespace trireme
