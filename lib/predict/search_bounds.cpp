#include "lib/predict/search_bounds.hpp"

#include <algorithm>
#include <array>

#include "kernels/trace.hpp"
#include "lib/predict/recorder.hpp"
#include "lib/predict/simulate.hpp"
#include "lib/train/optimizer.hpp"

namespace trireme {

namespace {

// At least. Hosts wait for what comes alone, and copy what comes from this node while the rest is
// on its way.
double least_seconds(const MachineModel& m, const Transfer& t) {
  if (m.backend == "cuda") return transfer_seconds(m, t);
  if (t.bytes_in() == 0) return 0;
  const bool far = t.in_far.messages > 0;
  double seconds = t.in_near.bytes > 0 ? t.in_near.bytes / share_of(m, m.near, "near") : 0;
  if (far) seconds = std::max(seconds, t.in_far.bytes / share_of(m, m.far, "far"));
  return seconds + required(m, (far ? m.far : m.near).latency, far ? "far.latency" : "near.latency",
                            "a message");
}

// A model of `layers` blocks on one stage, in `microbatches`, without rules for others.
PlanInput small(const PlanInput& in, RunChoice c, std::int64_t layers, std::int64_t microbatches) {
  c.grid.pipe = 1;
  c.schedule = ScheduleKind::one_f_one_b;
  c.chunks = 1;
  auto out = input_of(in, c);
  out.setup.freeze = {};
  out.setup.segments = {};
  out.setup.optimizer.no_decay = {};
  out.setup.model.layers = layers;
  out.train.batch = microbatches * c.microbatch * c.grid.data;
  return out;
}

struct Small {
  std::array<double, 2> forward{}, backward{};  // seconds of its first two microbatches
  double saved = 0, gather = 0, scatter = 0;
};

// `before` as in Placement.
Small measure(const PlanInput& in, const DryTarget& target, const MachineModel& machine,
              int before) {
  const std::vector<int> kinds{0};
  Account account;
  const Placement placement{static_cast<int>(machine.ranks_of_node), before};
  const auto r = record_step(in, target, placement, kinds, 0, &account);
  Small s;
  s.saved = static_cast<double>(account.peak[static_cast<std::size_t>(Kind::saved)]);
  for (const auto& scope : r.scopes) {
    const bool forward = scope.name == forward_span;
    if (!forward && scope.name != backward_span) continue;
    double& sum = (forward ? s.forward : s.backward)[static_cast<std::size_t>(scope.microbatch)];
    for (auto i = scope.begin; i < scope.end; ++i) {
      const auto& a = r.actions[static_cast<std::size_t>(i)];
      if (a.what == Action::What::compute && a.queue == Queue::compute)
        sum += seconds_of(machine, r.workloads[static_cast<std::size_t>(a.index)]);
      if (a.what != Action::What::call) continue;
      const auto& t = r.transfers[static_cast<std::size_t>(a.index)];
      if (t.comm == Comm::seq) sum += least_seconds(machine, t);
    }
  }
  for (const auto& t : r.transfers) {
    if (t.comm != Comm::gather && t.comm != Comm::scatter && t.comm != Comm::replicas) continue;
    (t.queue == Queue::gather ? s.gather : s.scatter) += least_seconds(machine, t);
  }
  return s;
}

}  // namespace

SearchBounds::SearchBounds(const PlanInput& in, const DryTarget& target,
                           const MachineModel& machine)
    : input_(in), target_(target), machine_(machine) {
  const auto spec = make_spec(in.setup.model);
  for (const auto& p : spec.params)
    if (p.unit == spec.blocks[0].unit) block_parameters_ += static_cast<double>(p.shape.count());
}

const std::vector<std::int64_t>& SearchBounds::blocks(const Pipeline& p) {
  auto& known = stages_[{p.schedule, p.stages, p.chunks}];
  if (known.empty()) known = blocks_of_stages(make_spec(input_.setup.model), {}, p);
  return known;
}

// Its groups of `size` ranks may lie otherwise on nodes than those of the first stage.
int SearchBounds::before(const RunChoice& c, int stage, int size) const {
  const auto node = static_cast<int>(machine_.ranks_of_node);
  return node % size == 0 || size % node == 0 ? 0 : stage * c.grid.places() % node;
}

// What a step does once, such as clearing a gradient, it does in one microbatch or the other: less
// than the least of two is in none.
const SearchBounds::Block& SearchBounds::block(const RunChoice& c, int stage) {
  const int before_it = before(c, stage, c.grid.seq);
  auto& b = blocks_[{c.grid.seq, c.microbatch, c.recompute, before_it}];
  if (b) return *b;
  RunChoice alone = c;
  alone.grid = {1, 1, c.grid.seq};
  alone.zero_stage = 0;
  const auto one = measure(small(input_, alone, 1, 2), target_, machine_, before_it);
  const auto two = measure(small(input_, alone, 2, 2), target_, machine_, before_it);
  std::array<Block, 2> each;
  for (std::size_t i = 0; i < each.size(); ++i) {
    each[i].forward = two.forward[i] - one.forward[i];
    each[i].backward = two.backward[i] - one.backward[i];
    each[i].rest = one.forward[i] + one.backward[i] - each[i].both();
  }
  return b.emplace(Block{
      std::min(each[0].forward, each[1].forward), std::min(each[0].backward, each[1].backward),
      std::max(0.0, std::min(each[0].rest, each[1].rest)), two.saved - one.saved});
}

const SearchBounds::Shard& SearchBounds::shard(const RunChoice& c, int stage) {
  const int before_it = before(c, stage, c.grid.places());
  const auto [it, fresh] = shards_.try_emplace(
      {c.grid.data, c.grid.seq, c.zero_stage, c.gather, c.reduce, before_it}, Shard{});
  if (!fresh || c.grid.places() == 1) return it->second;
  RunChoice least = c;
  least.microbatch = 1;
  least.recompute = Recompute::none;
  const auto at = [&](std::int64_t layers, std::int64_t microbatches) {
    return measure(small(input_, least, layers, microbatches), target_, machine_, before_it);
  };
  const auto one = at(1, 1), two = at(2, 1), one_twice = at(1, 2), two_twice = at(2, 2);
  const auto of = [&](double Small::*queue) {
    const double once = two.*queue - one.*queue, twice = two_twice.*queue - one_twice.*queue;
    return Messages{std::max(0.0, 2 * once - twice), std::max(0.0, twice - once)};
  };
  it->second = {of(&Small::gather), of(&Small::scatter)};
  return it->second;
}

// A stage works off its microbatches, after the first has come down to it; with 1F1B, before the
// last has gone up from it, too. What is gathered once a step comes before the end of the first
// forward, which is before all other work but with chunks; what is reduced once a step after the
// begin of the last backward, which with 1F1B is behind all other work.
double SearchBounds::seconds(const RunChoice& c) {
  const Pipeline pipe{c.schedule, c.grid.pipe, c.chunks};
  const auto& of_stage = blocks(pipe);
  const auto m = static_cast<double>(microbatches_of(input_, c));
  const bool whole = c.zero_stage == 0, plain = c.schedule == ScheduleKind::one_f_one_b;
  double most = 0, above = 0, down = 0;
  for (int stage = 0; stage < c.grid.pipe; ++stage) {
    // Uses in a row share a gather: the last block of a chunk forward and the first backward, the
    // first block backward and then forward; a chunk of one block may be gathered once for all.
    const auto& b = block(c, stage);
    const auto& s = shard(c, stage);
    double n = 0, gathered = 0;
    for (int chunk = 0; chunk < c.chunks; ++chunk) {
      const auto there = of_stage[static_cast<std::size_t>(pipe.virtual_stage(stage, chunk))];
      n += static_cast<double>(there);
      gathered += static_cast<double>(std::max<std::int64_t>(0, there - 1));
    }
    const double gather = n * s.gather.step + std::max(n / 2, m * gathered) * s.gather.microbatch;
    const double scatter = n * s.scatter.of(m);
    const double work = m * n * b.both();
    const bool once = c.gather == ZeroCadence::step && !whole;
    most = std::max({most, (plain ? above : down) + work, gather, scatter});
    if (c.chunks == 1)
      most = std::max(most, (once ? gather : down + n * b.forward) + work - n * b.forward);
    if (plain) {
      const bool late = c.reduce == ZeroCadence::step || whole;
      most = std::max(most, (once ? gather : down + n * b.forward) + (m - 1) * n * b.both() +
                                (late ? scatter : n * b.backward));
    }
    above += n * b.both();
    down += static_cast<double>(of_stage[static_cast<std::size_t>(stage)]) * b.forward;
  }
  return c.grid.pipe == 1 ? std::max(most, m * (above + block(c, 0).rest)) : most;
}

// What the first stage's blocks have: state, and the inputs of microbatches in flight; whole
// gradients too, from the first microbatch's backward on, where they are reduced once a step.
// However many chunks of a ring are, each has as many microbatches in flight as there are stages;
// folded ones, when the first microbatch comes back, all but one in the first chunk.
double SearchBounds::bytes(const RunChoice& c) {
  const Pipeline pipe{c.schedule, c.grid.pipe, c.chunks};
  const auto& of_stage = blocks(pipe);
  double first = 0;
  for (int chunk = 0; chunk < c.chunks; ++chunk)
    first += static_cast<double>(of_stage[static_cast<std::size_t>(pipe.virtual_stage(0, chunk))]);
  const double n = c.grid.places();
  const auto compute = static_cast<double>(bytes_of(input_.setup.compute));
  const auto rule = update_rule(input_.setup.optimizer);
  const auto arrays = static_cast<double>(arrays_of(rule).size());
  const double masters = compute < 4 ? 4 : 0;  // beside the weights that are computed with
  const bool shards = c.zero_stage == 3 && n > 1;
  const double kept = (4 * arrays + masters + compute + 4) / (shards ? n : 1);
  const double gathered = shards && c.gather == ZeroCadence::step ? compute : 0;
  const auto m = microbatches_of(input_, c);
  const bool sums = shards && c.reduce == ZeroCadence::step && c.chunks == 1;
  const double summed = sums && m > 1 ? 4 : 0;
  const auto saved = [&](std::int64_t microbatches) {
    const auto in_flight = [&](std::int64_t most) {
      return static_cast<double>(std::min(most, microbatches));
    };
    const bool folded = traits_of(c.schedule).path == Path::fold;
    return block(c, 0).saved *
           (folded ? static_cast<double>(of_stage.front()) * in_flight(2 * c.grid.pipe - 1) +
                         static_cast<double>(of_stage.back())
                   : first * in_flight(c.grid.pipe));
  };
  return first * block_parameters_ * (kept + gathered) +
         std::max(saved(m), first * block_parameters_ * summed + saved(m - 1));
}

}  // namespace trireme
