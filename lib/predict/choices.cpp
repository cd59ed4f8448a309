#include "lib/predict/choices.hpp"

#include <algorithm>
#include <iterator>

#include "kernels/fp8.hpp"
#include "lib/base/fixed.hpp"
#include "lib/ops/sequence_layout.hpp"
#include "lib/pipe/schedule.hpp"
#include "lib/train/batch_ramp.hpp"

namespace trireme {

// Adds a choice without sharding, and sharded choices with each combination of cadences.
static void add_with_zero_settings(std::vector<RunChoice>& all, RunChoice c) {
  all.push_back(c);
  if (c.grid.places() == 1) return;
  c.zero_stage = 3;
  for (const auto gather : {ZeroCadence::microbatch, ZeroCadence::step})
    for (const auto reduce : {ZeroCadence::microbatch, ZeroCadence::step}) {
      c.gather = gather;
      c.reduce = reduce;
      all.push_back(c);
    }
}

// Returns true if the grid supports sums that do not depend on the grid, or if none are needed.
// Sums are then over chunks of tokens, so each rank must have whole chunks. An evaluation can only
// count a limited number of tokens at a time.
static bool can_be_exact(const PlanInput& in, const Grid& grid, std::int64_t microbatch) {
  const auto chunk = in.setup.exact_chunk, tokens = context_of(in.setup) / grid.seq;
  if (chunk == 0) return true;
  return tokens % chunk == 0 &&
         (in.evaluation == PlanEvaluation::left_out || microbatch <= fixed::loss_terms / tokens);
}

// Returns the numbers of ranks over which experts may be spread, 1 first.
static std::vector<std::int64_t> expert_ranks(const ModelConfig& m, const Grid& grid) {
  auto all = divisors(grid.places());
  std::erase_if(all, [&](std::int64_t e) { return e > std::max<std::int64_t>(m.experts, 1); });
  return all;
}

// Returns true if `r` supports the model's offloading, which moves the inputs that recomputing
// keeps.
static bool can_recompute(const PlanInput& in, Recompute r) {
  return in.setup.offload == Offload::none || r == Recompute::block;
}

// Returns true if the products of each rank can be in fp8, or need not be.
static bool can_use_fp8(const PlanInput& in, const Grid& grid) {
  return in.setup.products != ProductType::fp8 ||
         context_of(in.setup) / grid.seq % fp8::multiple == 0;
}

bool accepts(const PlanInput& in, const RunChoice& c) {
  const auto samples = common_batch(in.train) / c.grid.data;
  const auto experts = expert_ranks(in.setup.model, c.grid);
  return std::ranges::find(experts, c.grid.expert) != experts.end() &&
         can_recompute(in, c.recompute) && samples % c.microbatch == 0 &&
         can_be_exact(in, c.grid, c.microbatch) && can_use_fp8(in, c.grid) &&
         pipeline_fault(c.schedule, c.grid.pipe, c.chunks, samples / c.microbatch).empty();
}

std::vector<RunChoice> choices_of(const PlanInput& in, std::int64_t ranks, int most_groups) {
  const auto& model = in.setup.model;
  const GridLimits limits{.layers = model.layers, .tokens = context_of(in.setup)};
  const auto batch = common_batch(in.train);
  std::vector<RunChoice> all;
  std::vector<Grid> grids;
  for (auto grid : legal_grids(limits, ranks)) {
    if (grid.seq > most_groups * ops::ranks_with_heads(grid.seq, model.heads)) continue;
    for (const auto expert : expert_ranks(model, grid)) {
      grid.expert = static_cast<int>(expert);
      grids.push_back(grid);
    }
  }
  for (const auto& grid : grids) {
    if (batch % grid.data != 0) continue;
    const auto samples = batch / grid.data;
    for (const auto microbatch : divisors(samples)) {
      const bool power_of_two = (microbatch & (microbatch - 1)) == 0;
      if (!power_of_two && microbatch != samples) continue;
      if (!can_be_exact(in, grid, microbatch) || !can_use_fp8(in, grid)) continue;
      for (const auto recompute : {Recompute::none, Recompute::block}) {
        if (!can_recompute(in, recompute)) continue;
        for (const auto& [schedule, chunks] : schedules_of(in, grid.pipe, samples / microbatch))
          add_with_zero_settings(all, {.grid = grid,
                                       .mixture = model.experts > 0,
                                       .microbatch = microbatch,
                                       .recompute = recompute,
                                       .schedule = schedule,
                                       .chunks = chunks});
      }
    }
  }
  return all;
}

std::vector<ChunkedSchedule> schedules_of(const PlanInput& in, int pipe,
                                          std::int64_t microbatches) {
  if (pipe == 1) return {{ScheduleKind::one_f_one_b, 1}};
  std::vector<ChunkedSchedule> all;
  for (const auto schedule : all_values<ScheduleKind>())
    for (int chunks = 1; std::int64_t{chunks} * pipe <= in.setup.model.layers; chunks *= 2) {
      const Pipeline p{schedule, pipe, chunks};
      const bool refused = in.transport == TransportKind::device && p.through_host();
      if (!refused && pipeline_fault(p.schedule, pipe, chunks, microbatches).empty())
        all.push_back({p.schedule, chunks});
    }
  return all;
}

std::int64_t microbatches_of(const PlanInput& in, const RunChoice& c) {
  return in.train.batch / (c.microbatch * c.grid.data);
}

PlanInput input_of(const PlanInput& in, const RunChoice& c) {
  PlanInput out = in;
  out.grid = c.grid;
  out.setup.stage_layers = {};
  out.setup.zero.stage = c.zero_stage;
  out.setup.zero.shard = 0;
  out.setup.zero.gather = c.gather;
  out.setup.zero.reduce = c.reduce;
  if (c.zero_stage == 0) out.setup.zero.gather_type = GatherType::compute;
  out.setup.recompute = c.recompute;
  out.setup.chunk_tokens =
      chunk_tokens_of(out.train, context_of(out.setup) / c.grid.seq, out.setup.exact_chunk);
  out.setup.schedule = c.schedule;
  out.setup.chunks = c.chunks;
  out.train.microbatch = c.microbatch;
  return out;
}

// Returns the overrides of [zero]. Stage 1 is stage 3 with both cadences once per step, and stage 2
// is stage 3 with only the gathers once per step. Stages 1 and 2 accept no cadences.
static std::vector<std::string> zero_overrides(const RunChoice& c, bool undo_cadences) {
  const bool each_use = c.zero_stage == 3 && c.gather == ZeroCadence::microbatch;
  const int once = c.reduce == ZeroCadence::step ? 1 : 2;
  std::vector all{fmt::format("zero.stage={}", c.zero_stage == 0 ? 0 : each_use ? 3 : once)};
  if (!each_use && !undo_cadences) return all;
  const auto plain = ZeroCadence::microbatch;
  all.push_back(fmt::format("zero.gather={}", name_of(plain)));
  all.push_back(fmt::format("zero.reduce={}", name_of(each_use ? c.reduce : plain)));
  return all;
}

static std::vector<std::string> words_of(const RunChoice& c, const SettingsToReset& set) {
  std::vector<std::string> all{fmt::format("parallel.pipe={}", c.grid.pipe),
                               fmt::format("parallel.data={}", c.grid.data),
                               fmt::format("parallel.seq={}", c.grid.seq)};
  if (c.mixture) all.push_back(fmt::format("parallel.expert={}", c.grid.expert));
  if (set.expert_tokens > 0)
    all.push_back(fmt::format("parallel.expert_tokens={}",
                              c.grid.expert > 1 ? std::to_string(set.expert_tokens) : "auto"));
  all.push_back(fmt::format("train.microbatch={}", c.microbatch));
  all.push_back(fmt::format("model.recompute={}", name_of(c.recompute)));
  if (c.grid.pipe > 1 || set.schedule) {
    all.push_back(fmt::format("parallel.schedule={}", name_of(c.schedule)));
    all.push_back(fmt::format("parallel.chunks={}", c.chunks));
  }
  if (set.stage_layers) all.emplace_back("parallel.stage_layers=auto");
  std::ranges::move(zero_overrides(c, set.cadences), std::back_inserter(all));
  if (set.shard) all.emplace_back("zero.shard=auto");
  if (set.gather_type)
    all.push_back(fmt::format("zero.gather_type={}",
                              name_of(c.zero_stage == 0 ? GatherType::compute : GatherType::fp8)));
  return all;
}

std::string overrides_of(const RunChoice& c, const SettingsToReset& set) {
  return fmt::format("{}", fmt::join(words_of(c, set), " "));
}

std::string changed_overrides(const RunChoice& from, const RunChoice& to, SettingsToReset set) {
  const auto before = words_of(from, set);
  set.cadences = set.cadences || from.zero_stage == 3;
  auto all = words_of(to, set);
  std::erase_if(all,
                [&](const auto& word) { return std::ranges::find(before, word) != before.end(); });
  return fmt::format("{}", fmt::join(all, " "));
}

}  // namespace trireme
