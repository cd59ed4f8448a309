#include "lib/plan/plan.hpp"

#include <algorithm>
#include <limits>

#include "kernels/trace.hpp"
#include "lib/comm/nccl_memory.hpp"
#include "lib/comm/transport/pretended_transport.hpp"
#include "lib/io/copy_partners.hpp"
#include "lib/plan/rank_kinds.hpp"
#include "lib/plan/sent_messages.hpp"
#include "lib/run/evaluation.hpp"
#include "lib/train/batch_ramp.hpp"
#include "lib/train/snapshot.hpp"

namespace trireme {

// Returns a batch with as many tokens as a rank's share. Its ids and documents do not matter here.
static Batch any_batch(const PlanInput& in) {
  const auto samples = in.train.microbatch, context = context_of(in.setup);
  const auto n = static_cast<std::size_t>(samples * context / in.grid.seq);
  Batch batch{std::vector<std::int32_t>(n, 0), std::vector<std::int32_t>(n, 0),
              std::vector<std::int64_t>(static_cast<std::size_t>(samples), 0),
              static_cast<std::int64_t>(n)};
  if (in.setup.attention == AttentionSpan::document)
    batch.start_BT.resize(static_cast<std::size_t>(samples * context), 0);
  if (in.document_weights == DocumentWeights::present) batch.weight_BT.resize(n, 1);
  const auto* const training = std::get_if<PreferenceTraining>(&in.setup.objective);
  if (!training) return batch;
  // Each sample has one pair, or one labeled answer with its mismatched answer.
  if (std::holds_alternative<Kto>(training->loss))
    batch.desirable_A.resize(static_cast<std::size_t>(samples), 1);
  if (training->reference == Reference::given)
    batch.reference_D.resize(static_cast<std::size_t>(2 * samples), 0);
  for (std::int64_t i = 0; i < samples * context; ++i)
    if (const auto half = (context + 1) / 2; i % context >= half)
      batch.start_BT[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(half);
  return batch;
}

static void evaluate_any(const PlanInput& in, Trainer& trainer, std::span<const Batch> batches) {
  if (std::holds_alternative<PreferenceTraining>(in.setup.objective))
    trainer.evaluate_pairs(trainer.score_pairs(batches));
  else
    trainer.evaluate(batches);
}

// Returns the FLOPs of one micro-batch in each chunk. The spans come from a trace whose clock
// counts FLOPs. There is one span for each instruction of the program that computes.
static std::vector<StageCost> costs_of(std::span<const TraceSpan> spans, const Program& program,
                                       int chunks, std::int64_t microbatches) {
  std::vector<StageCost> costs(static_cast<std::size_t>(chunks), {0, 0, 0});
  auto next = program.begin();
  for (const auto& s : spans) {
    const bool half = s.name == input_span || s.name == weight_span;
    if (s.name != forward_span && s.name != backward_span && !half) continue;
    next = std::find_if(next, program.end(), [](const auto& i) { return computes(i.what); });
    auto& c = costs[static_cast<std::size_t>(next++->chunk)];
    const auto flops = static_cast<double>(s.end - s.begin) / static_cast<double>(microbatches);
    (s.name == forward_span ? c.forward : c.backward) += flops;
    if (s.name == weight_span) c.weights += flops;
  }
  return costs;
}

namespace {

// The steps of a run that a plan executes.
struct StepsToPlan {
  std::vector<std::int64_t> all;
  // Index of the last step among those that train most, of the first step and the borders.
  std::size_t busiest = 0;
};

std::vector<std::int64_t> borders_of(const PlanInput& in, const FreezeSchedule& freeze) {
  const auto known = total_steps(in.train, context_of(in.setup));
  return freeze.borders(in.setup.first_step,
                        known > 0 ? known : std::numeric_limits<std::int64_t>::max());
}

StepsToPlan steps_to_plan(const PlanInput& in) {
  const auto spec = make_spec(in.setup.model, in.setup.adapter);
  const FreezeSchedule freeze(in.setup.freeze, spec);
  const auto trained = [&](std::int64_t step) {
    const auto freeze_states = freeze.at(step);
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < freeze_states.size(); ++i)
      if (freeze_states[i].trained) elements += spec.params[i].shape.count();
    return elements;
  };
  StepsToPlan steps{{in.setup.first_step, in.setup.first_step}};
  // The second step of each kind needs the most memory, because a snapshot of the first one exists.
  const auto borders = borders_of(in, freeze);
  const auto end = total_steps(in.train, context_of(in.setup));
  for (std::size_t i = 0; i < borders.size(); ++i) {
    steps.all.push_back(borders[i]);
    const auto next = i + 1 < borders.size() ? borders[i + 1] : end;
    if (end <= 0 || borders[i] + 1 < next) steps.all.push_back(borders[i] + 1);
  }
  const auto is_border = [&](std::int64_t step) {
    return std::ranges::find(borders, step) != borders.end();
  };
  for (std::size_t i = 1; i < steps.all.size(); ++i)
    if ((i == 1 || is_border(steps.all[i])) &&
        trained(steps.all[i]) >= trained(steps.all[steps.busiest]))
      steps.busiest = i;
  return steps;
}

// Allocates the arrays that a restart needs in addition to those of trained parts. They belong to
// frozen parts that trained before and keep their arrays.
void take_kept_arrays(const PlanInput& in, Trainer& trainer) {
  if (in.setup.first_step == 0) return;
  const FreezeSchedule freeze(in.setup.freeze, trainer.model().spec());
  const auto freeze_states = trainer.freeze_states();
  std::vector<std::uint8_t> trained(freeze_states.size(), 0);
  auto before = freeze.borders(0, in.setup.first_step);
  before.push_back(0);
  for (const auto step : before) {
    const auto then = freeze.at(step);
    for (std::size_t i = 0; i < then.size(); ++i)
      if (then[i].trained) trained[i] = 1;
  }
  auto& store = trainer.store();
  for (std::size_t i = 0; i < freeze_states.size(); ++i) {
    const auto id = ParamId::at(i);
    if (store.holds(id) && freeze_states[i].resumes && trained[i] != 0) store.make_arrays(id);
  }
}

// Runs one step and records its work and traffic.
void measure_step(RankPlan& plan, const PlanInput& in, Trainer& trainer, const Dry& backend,
                  std::int64_t step, std::span<const Batch> microbatches) {
  const auto pipe = pipeline_of(in.setup, in.grid.pipe);
  const SentMessages sent(trainer.axes(), shard_ranks(in.setup.zero, in.grid),
                          {in.ranks_of_node > 0 ? in.ranks_of_node : in.grid.ranks()});
  const auto before = trainer.axes().traffic();
  const auto flops = backend.flops();
  Trace::start([&] { return static_cast<std::int64_t>(backend.flops()); });
  trainer.step(step, 1e-3, microbatches);
  const auto spans = Trace::stop();
  plan.step_flops = backend.flops() - flops;
  plan.first_trainable_stage = trainer.first_trainable_stage();
  const auto program = training_program(pipe, static_cast<int>(microbatches.size()), plan.at.pipe,
                                        plan.first_trainable_stage);
  plan.microbatch_flops = costs_of(spans, program, pipe.chunks, std::ssize(microbatches));
  const auto after = trainer.axes().traffic();
  plan.step_traffic = after - before;
  plan.to_other_nodes = sent.to_other_nodes();
  plan.step_messages = sent.count();
}

}  // namespace

std::vector<Batch> any_microbatches(const PlanInput& in) {
  return std::vector<Batch>(
      static_cast<std::size_t>(in.train.batch / (in.train.microbatch * in.grid.data)),
      any_batch(in));
}

std::int64_t busiest_step(const PlanInput& in) {
  const auto steps = steps_to_plan(in);
  return steps.all[steps.busiest];
}

std::size_t memory_of(const Account& a, const BackendProperties& p) {
  return a.reserved + (p.host_readable ? a.pinned_reserved : 0);
}

OutsideAccount outside_account(const PlanInput& in, const BackendProperties& p, const Axes& axes) {
  return {in.transport == TransportKind::device
              ? nccl_memory(axes, pipeline_of(in.setup, in.grid.pipe).last_stage())
              : 0,
          p.host_readable ? 0 : in.headroom};
}

// Returns RankPlan::memory_copy_bytes. With several nodes, a node keeps as many shards of another
// node's ranks as it has ranks.
static double memory_copies_of(const PlanInput& in, double shard) {
  if (in.copies == PlanCopies::left_out) return 0;
  const auto ranks = in.grid.ranks();
  const bool one_node = ranks == 1 || (in.ranks_of_node > 0 && in.ranks_of_node >= ranks);
  return memory_copies_at_a_time * (one_node ? 1 : 2) * shard;
}

RankPlan plan_rank(const PlanInput& in, const DryTarget& target, int rank) {
  Dry backend(target);
  const Workspace workspace(backend);
  const auto axes = pretend_axes(in.grid, shard_ranks(in.setup.zero, in.grid), rank, in.comm);
  if (in.transport == TransportKind::device) connect(axes, transport::pretended_device);
  RankPlan plan;
  plan.rank = rank;
  plan.at = axes.at;
  plan.experts =
      owned_experts(in.setup.model.experts, axes.expert_group.rank(), in.grid.expert).count();
  plan.outside = outside_account(in, target.properties, axes);
  const auto microbatches = any_microbatches(in);
  const std::vector<Batch> group(static_cast<std::size_t>(evaluation_group(in.grid)),
                                 microbatches[0]);
  const auto steps = steps_to_plan(in);
  {
    Trainer trainer(backend, axes, in.setup);
    take_kept_arrays(in, trainer);
    Snapshot snapshot;
    const auto save = [&] {
      const auto slices = rank_slices(trainer.store());
      plan.checkpoint_bytes = std::max(plan.checkpoint_bytes, bytes_of(slices));
      plan.changing_bytes = std::max(plan.changing_bytes, changing_bytes(trainer.store(), slices));
      if (in.snapshot == PlanSnapshot::included) snapshot.reserve(trainer.store());
    };
    save();
    for (std::size_t i = 0; i < steps.all.size(); ++i) {
      if (in.setup.check_memory)  // takes more than a step without replay
        trainer.step(steps.all[i], 1e-3, microbatches, {}, Replay::yes);
      if (i == steps.busiest)
        measure_step(plan, in, trainer, backend, steps.all[i], microbatches);
      else
        trainer.step(steps.all[i], 1e-3, microbatches);
      save();
      if (in.evaluation == PlanEvaluation::included) evaluate_any(in, trainer, group);
    }
    plan.account = backend.account();
    plan.reserved = memory_of(plan.account, target.properties);
    plan.memory_copy_bytes = memory_copies_of(in, plan.checkpoint_bytes);
  }
  plan.races = backend.races();
  return plan;
}

// Computes the timeline of a step. The cost of a stage is that of its rank with the most heads.
// make_timeline needs costs above 0, even for a stage without a backward pass.
static Timeline timeline_of(const Plan& plan, const Pipeline& pipe) {
  std::vector<StageCost> costs(static_cast<std::size_t>(pipe.virtual_stages()), {1, 2, 1});
  std::vector<Program> programs;
  for (const auto& r : plan.ranks)
    for (int chunk = 0; chunk < pipe.chunks; ++chunk) {
      auto& c = costs[static_cast<std::size_t>(pipe.virtual_stage(r.at.pipe, chunk))];
      const auto& of_rank = r.microbatch_flops[static_cast<std::size_t>(chunk)];
      c.forward = std::max(c.forward, of_rank.forward);
      c.weights = std::max(c.weights, of_rank.weights);
      c.backward = std::max({c.backward, of_rank.backward, c.weights + 1});
    }
  for (int s = 0; s < pipe.stages; ++s)
    programs.push_back(training_program(pipe, static_cast<int>(plan.microbatches), s,
                                        plan.ranks[0].first_trainable_stage));
  return make_timeline(pipe, programs, costs);
}

// Numbers of blocks in all chunks of a stage.
struct StageBlocks {
  std::int64_t all = 0, mixtures = 0;
  bool operator==(const StageBlocks&) const = default;
};

static std::vector<StageBlocks> blocks_of_ranks(const PlanInput& in) {
  const auto& model = in.setup.model;
  const auto pipe = pipeline_of(in.setup, in.grid.pipe);
  const auto each = blocks_of_stages(make_spec(model, in.setup.adapter), context_of(in.setup),
                                     in.setup.stage_layers, pipe);
  std::vector<StageBlocks> stages(static_cast<std::size_t>(pipe.stages));
  std::int64_t layer = 0;
  for (std::size_t v = 0; v < each.size(); ++v) {
    auto& stage = stages[static_cast<std::size_t>(pipe.stage_of(static_cast<int>(v)))];
    stage.all += each[v];
    for (const auto end = layer + each[v]; layer < end; ++layer)
      stage.mixtures += has_experts(model, layer);
  }
  return stages;
}

// Returns true if a stage may need the most memory. If two stages between the first and the last
// are equal, only the earlier one may, because it has more micro-batches in flight. With rules for
// some parameters, no two stages count as equal.
static bool may_hold_most(const PlanInput& in, std::span<const StageBlocks> blocks, int stage) {
  const bool alike = in.setup.freeze.empty() && in.setup.fp8.same_in_all_blocks();
  if (!traits_of(in.setup.schedule).earlier_holds_most || !alike || stage <= 1 ||
      stage == in.grid.pipe - 1)
    return true;
  const auto before = blocks.subspan(1, static_cast<std::size_t>(stage) - 1);
  return std::ranges::find(before, blocks[static_cast<std::size_t>(stage)]) == before.end();
}

Reserved reserved_by(PlanInput in, DryTarget target, int rank) {
  target.order = false;
  const auto each = in.train.microbatch * in.grid.data;
  // The results of passes before the one with gradients are kept for all micro-batches.
  if (passes_of_step(in.setup.objective).size() == 1)
    in.train.batch =
        each * microbatches_held(pipeline_of(in.setup, in.grid.pipe), in.train.batch / each);
  const auto plan = plan_rank(in, target, rank);
  const auto snapshot = plan.account.peak[static_cast<std::size_t>(MemoryKind::snapshot)];
  return {plan.reserved, plan.reserved - (target.properties.host_readable ? snapshot : 0),
          plan.outside, plan.memory_copy_bytes};
}

std::optional<std::size_t> needed_within(const PlanInput& in, const DryTarget& target,
                                         std::size_t limit) {
  std::size_t most = 0;
  const auto blocks = blocks_of_ranks(in);
  const RankKinds kinds(in);
  for (const int rank : kinds.ranks()) {
    if (!may_hold_most(in, blocks, in.grid.at(rank).pipe)) continue;
    const auto r = reserved_by(in, target, rank);
    most = std::max(most, r.all + r.outside.all());
    if (most > limit) return std::nullopt;
  }
  return most;
}

std::size_t reserved_untrained(PlanInput in, DryTarget target, int rank) {
  in.setup.trainable = false;
  target.order = false;
  const auto properties = target.properties;
  Dry backend(std::move(target));
  const Workspace workspace(backend);
  const auto axes = pretend_axes(in.grid, shard_ranks(in.setup.zero, in.grid), rank, in.comm);
  if (in.transport == TransportKind::device) connect(axes, transport::pretended_device);
  Trainer trainer(backend, axes, in.setup);
  if (in.evaluation == PlanEvaluation::included)
    evaluate_any(
        in, trainer,
        std::vector<Batch>(static_cast<std::size_t>(evaluation_group(in.grid)), any_batch(in)));
  return memory_of(backend.account(), properties);
}

Plan make_plan(const PlanInput& in, const DryTarget& target) {
  Plan plan;
  const auto spec = make_spec(in.setup.model, in.setup.adapter);
  plan.parameters = spec.parameter_count();
  plan.active_parameters = spec.active_parameter_count();
  plan.microbatches = in.train.batch / (in.train.microbatch * in.grid.data);
  for (const auto& stage : blocks_of_ranks(in)) plan.stage_blocks.push_back(stage.all);
  plan.freeze_borders = borders_of(in, FreezeSchedule(in.setup.freeze, spec));
  plan.busiest_step = busiest_step(in);
  const RankKinds kinds(in);
  for (const int rank : kinds.ranks()) plan.ranks.push_back(plan_rank(in, target, rank));
  plan.timeline = timeline_of(plan, pipeline_of(in.setup, in.grid.pipe));
  return plan;
}

std::size_t Plan::most_reserved() const {
  return std::ranges::max(ranks, {}, &RankPlan::reserved).reserved;
}

std::size_t Plan::most_needed() const {
  return std::ranges::max(ranks, {}, &RankPlan::needed).needed();
}

}  // namespace trireme
