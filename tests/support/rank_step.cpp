#include "tests/support/rank_step.hpp"

#include <algorithm>

namespace trireme {

namespace {

// By ParamId: does a rule that is in force name it?
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

std::vector<StagePiece> pieces_of(const ModelSpec& spec, BlockRange blocks, bool first, bool last) {
  std::vector<StagePiece> pieces;
  if (first) {
    pieces.push_back({{{spec.table_unit}}, false, false});
    if (spec.positions != ParamId{}) pieces[0].units.push_back({spec.position_unit});
  }
  for (auto l = blocks.begin; l < blocks.end; ++l)
    pieces.push_back({{{spec.blocks[static_cast<std::size_t>(l)].unit}}, true, false});
  if (last) {
    pieces.push_back({{{spec.norm_unit}}, true, false});
    const Use use = spec.config.tied ? Use::tied : Use::own;
    pieces.push_back({{{spec.head_unit, use}}, false, true});
  }
  return pieces;
}

// By stage.
std::vector<std::vector<StagePiece>> stages_of(const ModelSpec& spec, const TrainerSetup& setup,
                                               int stages, std::span<const std::uint8_t> frozen) {
  std::vector<std::vector<StagePiece>> all;
  std::int64_t begin = 0;
  for (const auto n : blocks_of_stages(spec, setup.stage_layers, stages)) {
    const bool first = all.empty(), last = std::ssize(all) + 1 == stages;
    all.push_back(pieces_of(spec, {begin, begin + n}, first, last));
    begin += n;
  }
  for (auto& pieces : all)
    for (auto& piece : pieces)
      for (std::size_t i = 0; i < spec.params.size(); ++i)
        if (!frozen[i] &&
            std::ranges::find(piece.units, spec.params[i].unit, &Borrow::unit) != piece.units.end())
          piece.trains = true;
  return all;
}

std::vector<Turn> turns_of(const Program& program, const std::vector<StagePiece>& pieces) {
  std::vector<Turn> turns;
  for (const auto& i : program) {
    if (i.what == Do::forward)
      for (std::size_t p = 0; p < pieces.size(); ++p)
        turns.push_back({p, true, pieces[p].trains && pieces[p].gradient_in_forward});
    if (i.what == Do::backward)
      for (std::size_t p = pieces.size(); p-- > 0 && pieces[p].needed;)
        turns.push_back(
            {p, pieces[p].reads_in_backward, pieces[p].trains && !pieces[p].gradient_in_forward});
  }
  return turns;
}

std::vector<UnitId> units_of(const std::vector<StagePiece>& pieces) {
  std::vector<UnitId> units;
  for (const auto& piece : pieces)
    for (const auto& b : piece.units)
      if (std::ranges::find(units, b.unit) == units.end()) units.push_back(b.unit);
  return units;
}

}  // namespace

RankStep rank_step(const TrainerSetup& setup, const TrainConfig& train, const Grid& grid,
                   int rank) {
  RankStep s;
  s.spec = make_spec(setup.model);
  s.grid = grid;
  s.at = grid.at(rank);
  const auto frozen = frozen_in(setup.freeze, s.spec, setup.first_step);
  for (const auto f : frozen) s.trainable.push_back(!f);

  auto stages = stages_of(s.spec, setup, grid.pipe, frozen);
  const auto trains = [](const auto& pieces) {
    return std::ranges::count(pieces, true, &StagePiece::trains) > 0;
  };
  const auto first = static_cast<int>(std::ranges::find_if(stages, trains) - stages.begin());
  const auto microbatches = train.batch / (train.microbatch * grid.data);
  s.program = one_f_one_b(grid.pipe, static_cast<int>(microbatches), s.at.pipe, first);
  s.pieces = std::move(stages[static_cast<std::size_t>(s.at.pipe)]);
  bool flows = s.at.pipe > first;
  for (auto& piece : s.pieces) piece.needed = flows = flows || piece.trains;
  s.turns = turns_of(s.program, s.pieces);

  LayoutInput in{units_of(s.pieces), grid.places(), setup.optimizer.no_decay, setup.segments};
  for (const auto& rule : setup.freeze) in.freeze.push_back(rule.pattern);
  s.layout = make_layout(s.spec, in);

  const auto& z = setup.zero;
  s.sharers = z.stage == 0 ? 1 : z.shard > 0 ? z.shard : grid.places();
  s.copies = grid.places() / s.sharers;
  s.gather_once = z.stage < 3 || z.gather == ZeroCadence::step;
  s.reduce_once = z.stage < 2 || (z.stage == 3 && z.reduce == ZeroCadence::step);
  s.prefetch = z.prefetch;
  s.scatters = z.scatters;
  s.positions = train.microbatch * setup.model.context / grid.seq;
  s.compute = setup.compute;
  s.master = wide(setup.compute);
  s.reduce = s.compute == DType::f64 ? DType::f64 : setup.reduce;
  const bool plain = setup.optimizer.name == OptimizerKind::sgd && setup.optimizer.momentum == 0;
  s.state_arrays = setup.optimizer.name == OptimizerKind::adamw ? 2 : plain ? 0 : 1;
  s.recompute = setup.model.recompute;
  return s;
}

}  // namespace trireme
