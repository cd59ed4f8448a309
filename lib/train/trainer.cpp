#include "lib/train/trainer.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include "lib/base/seconds.hpp"
#include "lib/comm/agree.hpp"
#include "lib/ops/token_dispatch.hpp"
#include "lib/shard/digests.hpp"
#include "lib/train/counted_tokens.hpp"
#include "lib/train/digests.hpp"
#include "lib/train/optimizer.hpp"

namespace trireme {

static std::vector<std::uint8_t> trained_in(std::span<const FreezeState> freeze_states) {
  std::vector<std::uint8_t> mask;
  for (const auto& s : freeze_states) mask.push_back(s.trained);
  return mask;
}

static std::optional<OptimizerRules> rules_of(const TrainerSetup& s) {
  return s.trainable ? std::optional(optimizer_rules(s.optimizer, s.ema)) : std::nullopt;
}

std::int64_t context_of(const TrainerSetup& s) {
  return s.context > 0 ? s.context : s.model.max_context;
}

const TeacherSetup* teacher_of(const TrainerSetup& s) {
  return std::get_if<TeacherSetup>(&s.objective);
}

std::int64_t heads_of_seq(const TrainerSetup& s) {
  auto heads = s.model.heads;
  if (const auto* const teacher = teacher_of(s)) heads = std::min(heads, teacher->model.heads);
  return s.student_heads > 0 ? std::min(heads, s.student_heads) : heads;
}

static TrainerSetup setup_of_teacher(const TrainerSetup& s, const TeacherSetup& teacher) {
  TrainerSetup t;
  t.model = teacher.model;
  t.context = context_of(s);
  t.zero = s.zero;
  t.schedule = s.schedule;
  t.chunks = s.chunks;
  t.compute = s.compute;
  t.reduce = s.reduce;
  t.chunk_tokens = s.chunk_tokens;
  t.attention = s.attention;
  t.student_heads = heads_of_seq(s);
  t.trainable = false;
  return t;
}

// Returns the setup. Throws Error if the backend or the transport does not support it. Rules of
// decks (lib/deck/check.hpp) ensure the preconditions.
static TrainerSetup checked(TrainerSetup s, const Axes& axes, const Backend& b) {
  const Grid& grid = axes.grid;
  const auto chunk = s.exact_chunk, tokens = context_of(s) / grid.seq;
  expect(pipeline_fault(s.schedule, grid.pipe, s.chunks).empty(), "the pipeline is possible");
  expect(
      chunk == 0 || (s.compute != DType::f64 && tokens % chunk == 0 && s.chunk_tokens % chunk == 0),
      "sums that do not depend on the grid are over whole chunks, in f32");
  const auto* const teacher = teacher_of(s);
  expect(!teacher || (chunk == 0 && grid.expert == 1 && teacher->model.vocab == s.model.vocab),
         "the teacher has all experts on each rank, and the vocabulary of the model");
  require(!pipeline_of(s, grid.pipe).through_host() || !axes.down.connected(),
          "parallel.schedule = \"{}\" has several chunks per stage, whose messages would deadlock "
          "over NCCL: use {}, or set run.share_gpu = true to send messages through the host",
          name_of(s.schedule), schedules_of_chunks(1));
  require(chunk == 0 || b.properties().invariant,
          "run.exactness = \"invariant\" works only with the backends host (f32, bf16) and ref "
          "(f32), because a GPU may give different bits on another grid. Set run.backend = "
          "\"host\", or run.exactness = \"repeatable\" for the same bits on one grid");
  require(s.products != ProductType::fp8 || !s.trainable || b.properties().fp8,
          "precision.products = \"fp8\" needs a GPU with compute capability 9.0 (Hopper), or "
          "run.backend = \"host\" or \"ref\". Set precision.products = \"compute\"");
  return s;
}

static ModelSpec spec_of(const TrainerSetup& s) {
  auto spec = make_spec(s.model, s.adapter);
  return s.products == ProductType::fp8 ? with_fp8(std::move(spec), s.fp8) : spec;
}

Trainer::Trainer(Backend& backend, Axes axes, TrainerSetup setup)
    : backend_(backend),
      axes_(std::move(axes)),
      setup_(checked(std::move(setup), axes_, backend)),
      model_(backend, spec_of(setup_),
             {setup_.compute, context_of(setup_), setup_.dropout, setup_.exact_chunk > 0}),
      pipe_(pipeline_of(setup_, axes_.grid.pipe)),
      stage_blocks_(blocks_of_stages(model_.spec(), model_.context(), setup_.stage_layers, pipe_)),
      chunks_(chunk_parts(stage_blocks_, pipe_, axes_.at.pipe)),
      freeze_(setup_.freeze, model_.spec()),
      freeze_states_(freeze_.at(setup_.first_step)),
      store_(backend, model_.spec(), layout(), setup_.compute, rules_of(setup_),
             make_sharding(model_.spec(),
                           zero_policy(setup_.zero, axes_.grid, setup_.compute, setup_.reduce),
                           axes_, pipe_.last_stage()),
             trained_in(freeze_states_), setup_.exact_chunk) {
  if (const auto* const teacher = teacher_of(setup_); teacher && setup_.trainable)
    teacher_ = std::make_unique<Trainer>(backend, axes_, setup_of_teacher(setup_, *teacher));
}

Layout Trainer::layout() const {
  LayoutInput in{units_of(model_, chunks_), axes_.grid.places(), setup_.optimizer.no_decay,
                 setup_.segments};
  in.expert_rank = axes_.expert_group.rank();
  in.expert_ranks = axes_.grid.expert;
  if (setup_.trainable) in.gather_type = setup_.zero.gather_type;
  for (const auto& rule : setup_.freeze) in.freeze.push_back(rule.pattern);
  if (setup_.trainable && sees_matrices(setup_.optimizer.name))
    in.as_matrices = updated_as_matrices(model_.spec(), setup_.optimizer.adamw_patterns);
  return make_layout(model_.spec(), in);
}

// Applies the deck's freeze rules for the step. With zero.detect_freeze, also applies other changes
// of trainability. In manual mode, those changes are refused when the program opens the store.
void Trainer::follow_freeze_rules(std::int64_t step) {
  const auto begin = std::chrono::steady_clock::now();
  bool apply = setup_.zero.detect_freeze;
  if (!setup_.freeze.empty()) {
    auto now = freeze_.at(step);
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (now[i].trained == freeze_states_[i].trained) continue;
      store_.set_trainable(ParamId::at(i), now[i].trained,
                           now[i].resumes ? ThawMoments::keep : ThawMoments::fresh);
      apply = true;
    }
    freeze_states_ = std::move(now);
  }
  if (apply && store_.apply_trainable()) forget_dropped_arrays();
  detection_seconds_ += seconds_since(begin);
}

// Forgets the digests of dropped arrays, because the arrays may be created again, as zeros, before
// the next update.
void Trainer::forget_dropped_arrays() {
  if (!memory_) return;
  for (std::size_t k = 0; k < memory_->arrays.size(); ++k) {
    if (std::ranges::find(store_.arrays(), memory_->arrays[k]) == store_.arrays().end()) continue;
    for (std::size_t p = 0; p < memory_->of[k].size(); ++p)
      if (!store_.has_arrays(ParamId::at(p))) memory_->of[k][p] = std::nullopt;
  }
}

int Trainer::first_trainable_stage() const {
  for (std::size_t s = 0; s < stage_blocks_.size(); ++s)
    if (std::ranges::count(
            backward_parts(model_, stage_parts(stage_blocks_, s), store_.trainable(), false).trains,
            1))
      return static_cast<int>(s);
  return pipe_.virtual_stages();
}

Trainer::StepCounts Trainer::count(std::span<const Batch> microbatches) const {
  std::array<double, 2> sums{};
  for (const auto& batch : microbatches) {
    const auto samples = std::ssize(batch.sample_B), own = std::ssize(batch.ids_BT) / samples;
    sums[0] += static_cast<double>(batch.valid);
    sums[1] +=
        static_cast<double>(count_tokens(batch, sequence_of(own * axes_.grid.seq), axes_.at.seq));
  }
  axes_.world.all_reduce(sums);
  // Each stage counts all tokens.
  StepCounts counts{static_cast<std::int64_t>(sums[0]),
                    static_cast<std::int64_t>(sums[1]) / axes_.grid.pipe, sums[0], 1};
  if (microbatches[0].weight_BT.empty()) return counts;
  WeightSum own;
  for (const auto& batch : microbatches)
    if (has_head()) own += weight_sum(batch);
  auto limbs = fixed::to_limbs(own.quanta);
  axes_.world.all_reduce(limbs);
  counts.weight = weight_of(fixed::of_limbs(limbs));
  counts.largest_weight = own.largest;
  axes_.world.all_reduce_max({&counts.largest_weight, 1});
  return counts;
}

std::optional<std::vector<Tensor>> Trainer::run(const Program& program, Purpose purpose,
                                                std::span<const Batch> microbatches,
                                                ModelStage::Settings settings) {
  // Evaluation trains nothing, so nothing is saved for a backward pass.
  const bool train = purpose == Purpose::train;
  const std::vector<std::uint8_t> nothing(model_.spec().params.size(), 0);
  const auto trainable = train ? store_.trainable() : std::span<const std::uint8_t>(nothing);
  const int first = train ? first_trainable_stage() : pipe_.virtual_stages();
  std::vector<Chunk> chunks;
  for (const auto range : chunks_) {
    const bool input_wanted =
        pipe_.virtual_stage(axes_.at.pipe, static_cast<int>(chunks.size())) > first;
    chunks.emplace_back(model_, range, backward_parts(model_, range, trainable, input_wanted));
  }
  settings.exact_chunk = setup_.exact_chunk;
  settings.chunk_tokens = setup_.chunk_tokens;
  settings.offload = setup_.offload == Offload::inputs && !backend_.host_readable();
  const ExpertGroup experts{axes_.expert_group, setup_.expert_tokens};
  if (axes_.grid.expert > 1) settings.experts = &experts;
  Session session(store_, purpose,
                  make_borrow_plan(visits(program, chunks), store_.sharding().policy));
  const auto rows = microbatches[0].ids_BT.size() / microbatches[0].sample_B.size();
  const auto layout = sequence_of(static_cast<std::int64_t>(rows) * axes_.grid.seq);
  ModelStage stage(model_, chunks, session, backend_, axes_.seq, layout, microbatches,
                   setup_.recompute, settings);
  execute(program, pipe_, stage, backend_, {axes_.down, axes_.up});
  session.close();
  if (stage.dropped()) return std::nullopt;
  return std::vector(stage.results().begin(), stage.results().end());
}

DigestTable Trainer::digests() {
  auto gradients = digests_of_gradients(store_);
  if (!has_gradients_) std::ranges::fill(gradients.of[0], std::nullopt);
  return sum_over_ranks(axes_.world, joined(std::move(gradients), digests_of_state(store_)));
}

void Trainer::check_memory() {
  if (!memory_) return;
  const auto changed =
      changed_arrays(axes_.world, model_.spec(), *memory_, digests_of_memory(store_));
  if (!changed.empty())
    throw MemoryFault(
        fmt::format("memory changed between two updates although nothing wrote to it: {}. This "
                    "state is not saved; exclude that node",
                    changed));
}

ops::SequenceLayout Trainer::sequence_of(std::int64_t tokens) const {
  const auto own = tokens / axes_.grid.seq, leaf = setup_.exact_chunk;
  return {tokens, axes_.grid.seq, heads_of_seq(setup_), leaf > 0 && own % leaf == 0 ? leaf : 1,
          backend_.properties().key_tile};
}

Batch Trainer::share(const Batch& whole) const {
  const auto samples = static_cast<std::int64_t>(whole.sample_B.size());
  const auto all = static_cast<std::int64_t>(whole.ids_BT.size()) / samples;
  const auto own = sequence_of(all).positions(axes_.at.seq);
  Batch mine{{}, {}, whole.sample_B, 0};
  const auto cut = [&]<class T>(const std::vector<T>& from, std::vector<T>& to) {
    for (std::int64_t b = 0; b < samples; ++b)
      for (const auto& s : own)
        to.insert(to.end(), from.begin() + b * all + s.begin, from.begin() + b * all + s.end);
  };
  cut(whole.ids_BT, mine.ids_BT);
  cut(whole.targets_BT, mine.targets_BT);
  if (!whole.weight_BT.empty()) cut(whole.weight_BT, mine.weight_BT);
  mine.start_BT = whole.start_BT;
  mine.tokens_B = whole.tokens_B;
  mine.reference_D = whole.reference_D;
  mine.desirable_A = whole.desirable_A;
  if (has_head())
    mine.valid = std::ranges::count_if(mine.targets_BT, [](auto t) { return t != no_target; });
  return mine;
}

}  // namespace trireme
