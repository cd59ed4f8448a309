#include "lib/predict/search_bounds.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "kernels/trace.hpp"
#include "lib/base/pattern.hpp"
#include "lib/predict/recorder.hpp"
#include "lib/predict/simulate.hpp"
#include "lib/train/optimizer.hpp"

namespace trireme {

namespace {

// Returns a lower bound of a transfer's time. Hosts only wait for incoming data. They copy data
// from their own node while other data is on its way.
double least_seconds(const MachineModel& m, const Transfer& t) {
  if (m.backend == "cuda") return transfer_seconds(m, t);
  if (t.bytes_in() == 0) return 0;
  const bool far = t.in_far.messages > 0;
  double seconds = t.in_near.bytes > 0 ? t.in_near.bytes / share_of(m, m.near, "near") : 0;
  if (far) seconds = std::max(seconds, t.in_far.bytes / share_of(m, m.far, "far"));
  return seconds + required(m, (far ? m.far : m.near).latency, far ? "far.latency" : "near.latency",
                            "a message");
}

// Returns the input for a model of `layers` blocks on one stage, with `microbatches` micro-batches.
// Either all blocks have experts or none has. All blocks have the window if any block has one. No
// block has rotary positions if any block has none. Rules that select parameters are removed,
// except those of adapters.
PlanInput small(const PlanInput& in, RunChoice c, bool experts, std::int64_t layers,
                std::int64_t microbatches) {
  c.grid.pipe = 1;
  c.schedule = ScheduleKind::one_f_one_b;
  c.chunks = 1;
  auto out = input_of(in, c);
  out.setup.freeze = {};
  out.setup.segments = {};
  out.setup.optimizer.no_decay = {};
  out.setup.optimizer.adamw_patterns = {};
  auto& model = out.setup.model;
  model.layers = layers;
  model.dense_layers.clear();
  model.window_layers.clear();
  const bool any_without = !model.nope_layers.empty();
  model.nope_layers.clear();
  for (std::int64_t l = 0; any_without && l < layers; ++l) model.nope_layers.push_back(l);
  for (std::int64_t l = 0; model.experts > 0 && !experts && l < layers; ++l)
    model.dense_layers.push_back(l);
  out.train.batch = microbatches * c.microbatch * c.grid.data;
  return out;
}

struct Small {
  // Seconds in each of the first two micro-batches. `first_backward` is the backward pass of the
  // first block alone.
  std::array<double, 2> forward{}, backward{}, first_backward{};
  double saved = 0;
  std::array<double, 2> gather{}, scatter{};  // by communicator: the stage's, the experts'
};

bool moves_weights(Comm n) {
  using enum Comm;
  return n == gather || n == scatter || n == replicas || n == expert_gather ||
         n == expert_scatter || n == expert_replicas;
}

bool is_of_experts(Comm n) {
  using enum Comm;
  return n == expert_gather || n == expert_scatter || n == expert_replicas;
}

// Returns a lower bound of a scope's time: its computation, and the exchanges for which it waits.
// From its call on, each exchange takes at least its own time, in parallel with computation.
double seconds_of_scope(const Recording& r, const Scope& scope, const MachineModel& machine) {
  using What = Action::What;
  double now = 0;
  std::map<std::int32_t, double> ends;  // ends of exchanges, by transfer
  for (auto i = scope.begin; i < scope.end; ++i) {
    const auto& a = r.actions[static_cast<std::size_t>(i)];
    if (a.what == What::compute && a.queue == Queue::compute) {
      now += seconds_of(machine, r.workloads[static_cast<std::size_t>(a.index)]);
    } else if (a.what == What::call) {
      const auto& t = r.transfers[static_cast<std::size_t>(a.index)];
      if (t.comm == Comm::seq || t.comm == Comm::experts)
        ends[a.index] = now + least_seconds(machine, t);
    } else if (const auto it = ends.find(a.index); a.what == What::finish && it != ends.end()) {
      now = std::max(now, it->second);
    }
  }
  return now;
}

// Measures one step. `before` is as in Placement.
Small measure(const PlanInput& in, const DryTarget& target, const MachineModel& machine,
              int before) {
  Account account;
  const Placement placement{static_cast<int>(machine.ranks_of_node), before};
  const auto r = record_step(in, target, placement, 0, &account);
  Small s;
  s.saved = static_cast<double>(account.peak[static_cast<std::size_t>(MemoryKind::saved)]);
  for (const auto& scope : r.scopes) {
    auto* const seconds = scope.name == forward_span     ? &s.forward
                          : scope.name == backward_span  ? &s.backward
                          : scope.name == "block 0 grad" ? &s.first_backward
                                                         : nullptr;
    if (seconds)
      (*seconds)[static_cast<std::size_t>(scope.microbatch)] = seconds_of_scope(r, scope, machine);
  }
  for (const auto& t : r.transfers) {
    // Exchanges of matrices with their owners depend on the whole model. A bound may leave them
    // out.
    if (!moves_weights(t.comm) || t.pattern == Transfer::Pattern::exchange) continue;
    auto& queue = t.queue == Queue::gather ? s.gather : s.scatter;
    queue[is_of_experts(t.comm)] += least_seconds(machine, t);
  }
  return s;
}

}  // namespace

// Returns true if the unit has trainable parameters, and no [[freeze]] rule freezes any of its
// parameters in any step.
static bool always_trained(const PlanInput& in, const ModelSpec& spec, UnitId unit) {
  bool learns = false;
  for (const auto& p : spec.params) {
    if (p.unit != unit) continue;
    for (const auto& rule : in.setup.freeze)
      if (matches(rule.pattern, p.name)) return false;
    learns = learns || p.learns_from == LearnsFrom::gradients;
  }
  return learns;
}

SearchBounds::SearchBounds(const PlanInput& in, const DryTarget& target,
                           const MachineModel& machine)
    : input_(in), target_(target), machine_(machine) {
  const auto spec = make_spec(in.setup.model, in.setup.adapter);
  bool trained_before = false;
  for (std::int64_t l = 0; l < spec.config.layers; ++l) {
    const auto unit = spec.blocks[static_cast<std::size_t>(l)].unit;
    const bool trained = always_trained(in, spec, unit);
    full_.push_back(in.setup.freeze.empty() || (trained && trained_before));
    trained_before = trained_before || trained;
    Parameters of;
    for (const auto& p : spec.params) {
      if (p.unit != unit || p.learns_from != LearnsFrom::gradients) continue;
      if (p.expert < 0) of.stage += static_cast<double>(p.shape.count());
      if (p.expert == 0) of.of_expert += static_cast<double>(p.shape.count());
    }
    parameters_[has_experts(spec.config, l) ? mixture : dense] = of;
  }
}

const std::vector<SearchBounds::Count>& SearchBounds::blocks(const Pipeline& p) {
  auto& known = stages_[{p.schedule, p.stages, p.chunks}];
  if (!known.empty()) return known;
  const auto& model = input_.setup.model;
  std::int64_t layer = 0;
  const auto spec = make_spec(model, input_.setup.adapter);
  for (const auto n : blocks_of_stages(spec, context_of(input_.setup), {}, p)) {
    auto& count = known.emplace_back(Count{});
    for (const auto end = layer + n; layer < end; ++layer) {
      const auto type = has_experts(model, layer) ? mixture : dense;
      ++count.all[type];
      if (full_[static_cast<std::size_t>(layer)]) ++count.full[type];
    }
  }
  return known;
}

SearchBounds::BlockType SearchBounds::first_type() const {
  return has_experts(input_.setup.model, 0) ? mixture : dense;
}

int SearchBounds::before(const RunChoice& c, int stage, std::initializer_list<int> sizes) const {
  const auto node = static_cast<int>(machine_.ranks_of_node);
  const bool alike =
      std::ranges::all_of(sizes, [&](int size) { return node % size == 0 || size % node == 0; });
  return alike ? 0 : stage * c.grid.places() % node;
}

// Work that a step does once, like clearing a gradient, happens in only one of the two
// micro-batches. The smaller of two measurements is therefore a lower bound for any micro-batch.
const SearchBounds::Block& SearchBounds::block(const RunChoice& c, int stage, BlockType type) {
  const auto& g = c.grid;
  const int before_it = before(c, stage, {g.seq, g.expert});
  auto& b = blocks_[{g.seq, g.expert, c.microbatch, c.recompute, before_it, type}];
  if (b) return *b;
  RunChoice alone = c;
  alone.grid = {1, g.expert / std::gcd(g.expert, g.seq), g.seq, g.expert};
  alone.zero_stage = 0;
  const auto of = [&](std::int64_t layers) {
    return measure(small(input_, alone, type == mixture, layers, 2), target_, machine_, before_it);
  };
  const auto one = of(1), two = of(2);
  std::array<Block, 2> each;
  double less_in_first = 0;
  for (std::size_t i = 0; i < each.size(); ++i) {
    each[i].forward = two.forward[i] - one.forward[i];
    each[i].backward = two.backward[i] - one.backward[i];
    each[i].rest = one.forward[i] + one.backward[i] - each[i].both();
    less_in_first = std::max(less_in_first, each[i].backward - one.first_backward[i]);
  }
  return b.emplace(Block{
      std::min(each[0].forward, each[1].forward), std::min(each[0].backward, each[1].backward),
      less_in_first, std::min(each[0].rest, each[1].rest) + less_in_first, two.saved - one.saved});
}

const SearchBounds::Shard& SearchBounds::shard(const RunChoice& c, int stage, BlockType type) {
  const auto& g = c.grid;
  const int before_it = before(c, stage, {g.places()});
  const auto [it, fresh] = shards_.try_emplace(
      {g.data, g.seq, g.expert, c.zero_stage, c.gather, c.reduce, before_it, type}, Shard{});
  if (!fresh || g.places() == 1) return it->second;
  RunChoice least = c;
  least.microbatch = 1;
  least.recompute = Recompute::none;
  const auto at = [&](std::int64_t layers, std::int64_t microbatches) {
    return measure(small(input_, least, type == mixture, layers, microbatches), target_, machine_,
                   before_it);
  };
  const auto one = at(1, 1), two = at(2, 1), one_twice = at(1, 2), two_twice = at(2, 2);
  const auto of = [&](std::array<double, 2> Small::*queue) {
    std::array<Messages, 2> all;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double once = (two.*queue)[i] - (one.*queue)[i],
                   twice = (two_twice.*queue)[i] - (one_twice.*queue)[i];
      all[i] = {std::max(0.0, 2 * once - twice), std::max(0.0, twice - once)};
    }
    return all;
  };
  it->second = {of(&Small::gather), of(&Small::scatter)};
  return it->second;
}

// Returns the time of transfers on a queue. A device's queue moves one transfer at a time. On a
// host, communicators work in parallel.
double SearchBounds::on_queue(const std::array<double, 2>& seconds) const {
  return machine_.backend == "cuda" ? seconds[0] + seconds[1] : std::max(seconds[0], seconds[1]);
}

// Returns the sums of lower bounds over a stage's blocks. Consecutive uses of a block share a
// gather. A chunk's last block is used last in the forward pass and first in the backward pass. A
// chunk's first block is used last in the backward pass and first in the next forward pass. A chunk
// of one block may be gathered only once.
SearchBounds::StageSums SearchBounds::sums(const RunChoice& c, int stage) {
  const Pipeline pipe{c.schedule, c.grid.pipe, c.chunks};
  const auto& of_stage = blocks(pipe);
  const auto m = static_cast<double>(microbatches_of(input_, c));
  StageSums all;
  std::array<double, 2> once{}, often{}, at_least{}, scatter{};  // by communicator
  for (int chunk = 0; chunk < c.chunks; ++chunk) {
    const auto& there = of_stage[static_cast<std::size_t>(pipe.virtual_stage(stage, chunk))];
    std::array<double, 2> gathered{}, shared{};
    for (const auto type : block_types) {
      if (there.all[type] == 0) continue;
      const auto& b = block(c, stage, type);
      all.forward += static_cast<double>(there.all[type]) * b.forward;
      all.both += static_cast<double>(there.all[type]) * b.forward;
      if (there.full[type] == 0) continue;
      const auto n = static_cast<double>(there.full[type]);
      const auto& s = shard(c, stage, type);
      all.both += n * b.backward;
      for (std::size_t i = 0; i < once.size(); ++i) {
        once[i] += n * s.gather[i].step;
        at_least[i] += n / 2 * s.gather[i].microbatch;
        gathered[i] += n * s.gather[i].microbatch;
        shared[i] = std::max(shared[i], s.gather[i].microbatch);
        scatter[i] += n * s.scatter[i].of(m);
      }
    }
    for (std::size_t i = 0; i < often.size(); ++i) often[i] += gathered[i] - shared[i];
  }
  if (stage == 0) all.both -= block(c, 0, first_type()).less_in_first;
  for (std::size_t i = 0; i < once.size(); ++i) once[i] += std::max(at_least[i], m * often[i]);
  all.gather = on_queue(once);
  all.scatter = on_queue(scatter);
  return all;
}

// Returns a lower bound of a step's time. A stage processes its micro-batches after the first one
// has come down to it. With 1F1B, it also does so before the last one has gone up from it. Weights
// that are gathered once per step arrive before the end of the first forward pass. Without chunks,
// this pass is before all other work. Gradients leave only after the forward pass of the first
// micro-batch through all stages. Gradients that are reduced once per step leave after the forward
// pass of the last micro-batch. With 1F1B, this pass is after all other work.
double SearchBounds::seconds(const RunChoice& c) {
  const auto m = static_cast<double>(microbatches_of(input_, c));
  const bool whole = c.zero_stage == 0, plain = c.schedule == ScheduleKind::one_f_one_b;
  const bool once = c.gather == ZeroCadence::step && !whole,
             late = c.reduce == ZeroCadence::step || whole;
  const auto& of_stage = blocks({c.schedule, c.grid.pipe, c.chunks});
  std::vector<StageSums> stages;
  for (int stage = 0; stage < c.grid.pipe; ++stage) stages.push_back(sums(c, stage));
  double through = 0;
  for (const auto& s : stages) through += s.forward;
  double most = 0, above = 0, down = 0;
  for (int stage = 0; stage < c.grid.pipe; ++stage) {
    const auto& s = stages[static_cast<std::size_t>(stage)];
    const double work = m * s.both;
    most = std::max({most, (plain ? above : down) + work, s.gather, s.scatter});
    if (c.chunks == 1) {
      const double first = std::max(once ? s.gather : 0, down + s.forward);  // when it ends
      const double others = late ? (m - 1) * (plain ? s.both : s.forward) : 0;
      most =
          std::max({most, first + work - s.forward, std::max(first + others, through) + s.scatter});
    }
    above += s.both;
    for (const auto type : block_types)
      if (const auto n = of_stage[static_cast<std::size_t>(stage)].all[type]; n > 0)
        down += static_cast<double>(n) * block(c, stage, type).forward;
  }
  // The forward pass of a head that is trained also computes weight gradients.
  if (c.grid.pipe > 1 || !input_.setup.freeze.empty()) return most;
  return std::max(most, m * (above + block(c, 0, first_type()).rest));
}

// Returns the number of experts at the first place, which has the most.
static double own_experts(const PlanInput& in, const RunChoice& c) {
  return static_cast<double>(owned_experts(in.setup.model.experts, 0, c.grid.expert).count());
}

double SearchBounds::state_bytes(const RunChoice& c, const Count& blocks) const {
  const auto compute = static_cast<double>(bytes_of(input_.setup.compute));
  const auto rules = optimizer_rules(input_.setup.optimizer, input_.setup.ema);
  // The parameters with the fewest arrays are a bound for all.
  auto fewest = arrays_of(rules.elements).size();
  if (rules.matrices) fewest = std::min(fewest, elementwise_arrays(rules.matrices->rule).size());
  const auto arrays = static_cast<double>(fewest + (input_.setup.ema > 0 ? 1 : 0));
  const double masters = compute < 4 ? 4 : 0;  // in addition to the weights used to compute
  const double each = 4 * arrays + masters + compute + 4;
  const double n = c.zero_stage == 3 ? c.grid.places() : 1,
               of_experts = c.zero_stage == 3 ? n / c.grid.expert : 1;
  double bytes = 0;
  for (const auto type : block_types) {
    const auto& p = parameters_[type];
    const auto full = static_cast<double>(blocks.full[type]),
               others = static_cast<double>(blocks.all[type]) - full;
    bytes += (full * each + others * compute) *
             (p.stage / n + p.of_expert * own_experts(input_, c) / of_experts);
  }
  return bytes;
}

double SearchBounds::gathered_bytes(const RunChoice& c, const Count& blocks,
                                    double bytes_each) const {
  if (c.zero_stage != 3 || c.grid.places() == 1) return 0;
  const bool experts_too = c.grid.places() > c.grid.expert;
  double bytes = 0;
  for (const auto type : block_types) {
    const auto& p = parameters_[type];
    bytes += static_cast<double>(blocks.full[type]) * bytes_each *
             (p.stage + (experts_too ? p.of_expert * own_experts(input_, c) : 0));
  }
  return bytes;
}

// Returns a lower bound of the memory for the first stage's blocks: their state, and the inputs of
// micro-batches in flight. If gradients are reduced once per step, whole gradients are added from
// the backward pass of the first micro-batch on. On a ring, as many micro-batches are in flight in
// each chunk as there are stages, for any number of chunks. On a fold, when the first micro-batch
// comes back, all other micro-batches in flight are in the first chunk.
double SearchBounds::bytes(const RunChoice& c) {
  const Pipeline pipe{c.schedule, c.grid.pipe, c.chunks};
  const auto& of_stage = blocks(pipe);
  Count first{};
  for (int chunk = 0; chunk < c.chunks; ++chunk)
    for (const auto type : block_types) {
      const auto& there = of_stage[static_cast<std::size_t>(pipe.virtual_stage(0, chunk))];
      first.all[type] += there.all[type];
      first.full[type] += there.full[type];
    }
  const auto compute = static_cast<double>(bytes_of(input_.setup.compute));
  const double sent = input_.setup.zero.gather_type == GatherType::fp8 ? 1 : compute;
  const double gathered = c.gather == ZeroCadence::step ? gathered_bytes(c, first, sent) : 0;
  const auto m = microbatches_of(input_, c);
  const bool sums = c.reduce == ZeroCadence::step && c.chunks == 1 && m > 1;
  const double summed = sums ? gathered_bytes(c, first, 4) : 0;
  // Returns the bytes of `most` micro-batches, or of all if there are fewer.
  const auto saved_of = [&](const Count& blocks, std::int64_t most, std::int64_t microbatches) {
    double bytes = 0;
    for (const auto type : block_types)
      if (const auto n = blocks.full[type]; n > 0)
        bytes += static_cast<double>(n) * block(c, 0, type).saved;
    return bytes * static_cast<double>(std::min(most, microbatches));
  };
  const auto saved = [&](std::int64_t microbatches) {
    if (traits_of(c.schedule).path != Path::fold) return saved_of(first, c.grid.pipe, microbatches);
    return saved_of(of_stage.front(), 2 * c.grid.pipe - 1, microbatches) +
           saved_of(of_stage.back(), 1, 1);
  };
  return state_bytes(c, first) + gathered + std::max(saved(m), summed + saved(m - 1));
}

}  // namespace trireme
