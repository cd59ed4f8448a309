#include "lib/shard/matrix_updates.hpp"

#include <algorithm>
#include <utility>

#include "lib/matrix/matrix_step.hpp"
#include "lib/shard/rank_round.hpp"

namespace trireme {
namespace {

// Returns the scratch memory that suffices for the step of every matrix of the plan.
MatrixScratch scratch_of(const MatrixRule& rule, const MatrixPlan& plan) {
  MatrixScratch most;
  for (const auto& round : plan.rounds)
    for (const auto& m : round.matrices) {
      const auto s = step_scratch(rule, m.matrix.rows, m.matrix.columns);
      most = {std::max(most.compute, s.compute), std::max(most.wide, s.wide)};
    }
  return most;
}

// Performs all rounds. Three are in progress at a time: one sends its parts, one is computed, and
// one sends its steps back. A single rank sends nothing, so it performs them one after another.
void perform(const GroupUpdate& update) {
  const auto& rounds = update.plan.rounds;
  if (rounds.empty()) return;
  const auto memory = [&](std::int64_t n, DType type) {
    return Tensor::empty(update.model.backend, {n}, type, MemoryKind::transient);
  };
  const auto scratch = scratch_of(update.optimizer.rule, update.plan);
  const Tensor compute = memory(scratch.compute, update.compute()),
               wide = memory(scratch.wide, update.master());
  const auto in_progress = update.ranks() == 1 ? 1 : std::min<std::size_t>(3, rounds.size());
  std::vector<RankRound> buffers;
  for (std::size_t i = 0; i < in_progress; ++i) buffers.emplace_back(update);
  if (in_progress == 1) {
    for (const auto& round : rounds) {
      buffers[0].depart(round);
      buffers[0].compute(compute.view(), wide.view());
      buffers[0].apply();
    }
    return;
  }
  const auto at = [&](std::size_t r) -> RankRound& { return buffers[r % in_progress]; };
  for (std::size_t r = 0; r < rounds.size() + 2; ++r) {
    if (r < rounds.size()) at(r).depart(rounds[r]);
    if (r >= 1 && r - 1 < rounds.size()) at(r - 1).compute(compute.view(), wide.view());
    if (r >= 2) at(r - 2).apply();
  }
}

}  // namespace

MatrixUpdates::MatrixUpdates(ShardedModel model, std::optional<MatrixOptimizer> optimizer,
                             bool exact)
    : model_(model), optimizer_(std::move(optimizer)), exact_(exact) {}

// If several ranks compute the step of one matrix, their bits must be equal, even if the ranks have
// different numbers of threads.
SumOrder MatrixUpdates::order(bool of_experts) const {
  const auto& sharers = of_experts ? model_.sharding.experts : model_.sharding.stage;
  const bool repeated = sharers.replicas.size() > 1 || model_.sharding.tied_stage >= 0;
  return exact_ || (repeated && model_.backend.properties().invariant) ? SumOrder::by_shape
                                                                       : SumOrder::any;
}

const MatrixPlan& MatrixUpdates::plan(const Trainability& trainability, bool of_experts) {
  std::vector<std::size_t> segments;
  for (std::size_t i = 0; i < model_.layout.segments.size(); ++i) {
    const auto& s = model_.layout.segments[i];
    if (s.matrices().count() > 0 && s.of_experts == of_experts && trainability.trains(s))
      segments.push_back(i);
  }
  auto& planned = planned_[of_experts ? 1 : 0];
  if (segments != planned.segments) {
    const auto cost = [&](const Matrix& m) {
      return step_flops(optimizer_->rule, m.rows, m.columns);
    };
    const int ranks = (of_experts ? model_.sharding.experts : model_.sharding.stage).gather.size();
    planned = {segments,
               plan_matrices(model_.spec, model_.layout, segments, optimizer_->heads, ranks, cost)};
  }
  return planned.plan;
}

void MatrixUpdates::update(const UpdateFactors& factors, const Trainability& trainability) {
  if (!optimizer_) return;
  for (const bool of_experts : {false, true})
    perform({model_, *optimizer_, order(of_experts),
             of_experts ? model_.sharding.experts : model_.sharding.stage,
             plan(trainability, of_experts), factors});
}

}  // namespace trireme
