#include "tests/support/rank_step.hpp"

#include <algorithm>

#include "lib/base/pattern.hpp"
#include "lib/train/optimizer.hpp"
#include "tests/support/matrix_formulas.hpp"

namespace trireme {

namespace {

// By ParamId: does a rule that holds in this step name it?
std::vector<std::uint8_t> frozen_in(const std::vector<FreezeRule>& rules, const ModelSpec& spec,
                                    std::int64_t step) {
  std::vector<std::uint8_t> frozen(spec.params.size(), 0);
  for (const auto& rule : rules) {
    if (step < rule.from_step || (rule.to_step > 0 && step >= rule.to_step)) continue;
    for (std::size_t i = 0; i < frozen.size(); ++i)
      frozen[i] = frozen[i] || matches(rule.pattern, spec.params[i].name);
  }
  return frozen;
}

struct BlockRange {
  std::int64_t begin, end;
};

std::vector<StagePart> parts_of(const ModelSpec& spec, BlockRange blocks, bool first, bool last) {
  std::vector<StagePart> parts;
  if (first) {
    parts.push_back({{{spec.table_unit}}, false, false});
    if (spec.positions != ParamId{}) parts[0].units.push_back({spec.position_unit});
  }
  for (auto l = blocks.begin; l < blocks.end; ++l)
    parts.push_back({{{spec.blocks[static_cast<std::size_t>(l)].unit}}, true, false});
  if (last) {
    parts.push_back({{{spec.norm_unit}}, true, false});
    const Use use = spec.config.tied ? Use::tied : Use::own;
    parts.push_back({{{spec.head_unit, use}}, false, true});
  }
  return parts;
}

// By stage.
std::vector<std::vector<StagePart>> stages_of(const ModelSpec& spec, const TrainerSetup& setup,
                                              std::int64_t context, int stages,
                                              std::span<const std::uint8_t> frozen) {
  std::vector<std::vector<StagePart>> all;
  std::int64_t begin = 0;
  for (const auto n : blocks_of_stages(spec, context, setup.stage_layers, {.stages = stages})) {
    const bool first = all.empty(), last = std::ssize(all) + 1 == stages;
    all.push_back(parts_of(spec, {begin, begin + n}, first, last));
    begin += n;
  }
  for (auto& parts : all)
    for (auto& part : parts)
      for (std::size_t i = 0; i < spec.params.size(); ++i)
        if (!frozen[i] && spec.params[i].learns_from == LearnsFrom::gradients &&
            std::ranges::find(part.units, spec.params[i].unit, &Borrow::unit) != part.units.end())
          part.trains = true;
  return all;
}

std::vector<Turn> turns_of(const Program& program, const std::vector<StagePart>& parts) {
  std::vector<Turn> turns;
  for (const auto& i : program) {
    const auto is_here = [&](std::size_t p) { return parts[p].chunk == i.chunk; };
    if (i.what == Do::forward)
      for (std::size_t p = 0; p < parts.size(); ++p)
        if (is_here(p)) turns.push_back({p, true, parts[p].trains && parts[p].gradient_in_forward});
    const bool inputs = i.what == Do::backward || i.what == Do::input_gradients;
    const bool weights = i.what == Do::backward || i.what == Do::weight_gradients;
    if (!inputs && !weights) continue;
    for (std::size_t p = parts.size(); p-- > 0;)
      if (is_here(p) && parts[p].needed)
        turns.push_back({p, inputs && parts[p].reads_in_backward,
                         weights && parts[p].trains && !parts[p].gradient_in_forward});
  }
  return turns;
}

std::vector<UnitId> units_of(const std::vector<StagePart>& parts) {
  std::vector<UnitId> units;
  for (const auto& part : parts)
    for (const auto& b : part.units)
      if (std::ranges::find(units, b.unit) == units.end()) units.push_back(b.unit);
  return units;
}

}  // namespace

bool trains(const RankStep& s, ParamId p) {
  if (p == ParamId{}) return false;
  const auto* adapter = s.spec.adapter_of(p);
  return s.trainable[p.index()] != 0 || (adapter && s.trainable[adapter->a.index()] != 0);
}

RankStep rank_step(const TrainerSetup& setup, const TrainConfig& train, const Grid& grid,
                   int rank) {
  RankStep s;
  s.spec = make_spec(setup.model, setup.adapter);
  if (setup.products == ProductType::fp8) s.spec = with_fp8(s.spec, setup.fp8);
  s.context = setup.context > 0 ? setup.context : setup.model.max_context;
  s.grid = grid;
  s.at = grid.at(rank);
  const auto frozen = frozen_in(setup.freeze, s.spec, setup.first_step);
  for (std::size_t i = 0; i < frozen.size(); ++i)
    s.trainable.push_back(!frozen[i] && s.spec.params[i].learns_from == LearnsFrom::gradients);

  auto stages = stages_of(s.spec, setup, s.context, grid.pipe * setup.chunks, frozen);
  const auto trains = [](const auto& parts) {
    return std::ranges::count(parts, true, &StagePart::trains) > 0;
  };
  const auto first = static_cast<int>(std::ranges::find_if(stages, trains) - stages.begin());
  const auto microbatches = static_cast<int>(train.batch / (train.microbatch * grid.data));
  s.program = training_program(
      {setup.schedule, grid.pipe, setup.chunks,
       setup.recompute == Recompute::block || setup.chunk_tokens > 0 ? WeightGradients::at_once
                                                                     : WeightGradients::late},
      microbatches, s.at.pipe, first);
  const bool fold = setup.schedule == ScheduleKind::zbv;
  for (int c = 0; c < setup.chunks; ++c) {
    const int at = fold && c == 1 ? 2 * grid.pipe - 1 - s.at.pipe : c * grid.pipe + s.at.pipe;
    bool flows = at > first;
    for (auto& part : stages[static_cast<std::size_t>(at)]) {
      part.chunk = c;
      part.passes_down = flows;
      part.needed = flows = flows || part.trains;
      s.parts.push_back(part);
    }
  }
  s.turns = turns_of(s.program, s.parts);

  LayoutInput in{units_of(s.parts), grid.places(), setup.optimizer.no_decay, setup.segments};
  for (const auto& rule : setup.freeze) in.freeze.push_back(rule.pattern);
  in.expert_rank = grid.place(rank) % grid.expert;
  in.expert_ranks = grid.expert;
  in.gather_type = setup.zero.gather_type;
  s.matrices = optimizer_rules(setup.optimizer, 0).matrices;
  for (const auto& p : s.spec.params)
    if (s.matrices) in.as_matrices.push_back(test::sees_matrices(p));
  s.layout = make_layout(s.spec, in);

  const auto& z = setup.zero;
  s.stage.ranks = z.stage == 0 ? 1 : z.shard > 0 ? z.shard : grid.places();
  s.stage.copies = grid.places() / s.stage.ranks;
  // A share of the experts is on every Grid::expert-th rank.
  const auto holders = grid.places() / grid.expert;
  s.experts.ranks = std::max<std::int64_t>(1, s.stage.ranks / grid.expert);
  s.experts.copies = holders / s.experts.ranks;
  s.gather_once = z.stage < 3 || z.gather == ZeroCadence::step;
  s.reduce_once = z.stage < 2 || (z.stage == 3 && z.reduce == ZeroCadence::step);
  s.prefetch = z.prefetch;
  s.scatters = z.scatters;
  s.samples = train.microbatch;
  s.positions = train.microbatch * s.context / grid.seq;
  s.compute = setup.compute;
  s.master = wide(setup.compute);
  s.reduce = s.compute == DType::f64 ? DType::f64 : setup.reduce;
  const bool plain = setup.optimizer.name == OptimizerKind::sgd && setup.optimizer.momentum == 0;
  const bool adamw = setup.optimizer.name == OptimizerKind::adamw || s.matrices;
  s.state_arrays = adamw ? 2 : plain ? 0 : 1;
  s.averages = setup.ema > 0;
  s.recompute = setup.recompute;
  s.in_chunks = setup.chunk_tokens > 0 && setup.chunk_tokens < s.positions;
  s.counts_samples = setup.balance == Balance::sample && setup.balance_weight > 0;
  s.rows_of_round = setup.expert_tokens;
  return s;
}

}  // namespace trireme
