#pragma once
// Trainer runs optimizer steps on this rank's part of a model. It also evaluates the model and
// computes logits. All inputs of a step (tokens, learning rate) are passed as values, so the same
// code runs for training, tests and plans. All calls are collective over Axes::world.
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/digest.hpp"
#include "lib/comm/agree.hpp"
#include "lib/comm/axes.hpp"
#include "lib/data/dataset.hpp"
#include "lib/ops/key_values.hpp"
#include "lib/ops/sequence_layout.hpp"
#include "lib/shard/freeze.hpp"
#include "lib/shard/store.hpp"
#include "lib/train/config.hpp"
#include "lib/train/objective.hpp"
#include "lib/train/preference.hpp"
#include "lib/train/routing.hpp"
#include "lib/train/stage.hpp"
#include "lib/train/state_fault.hpp"
#include "lib/train/sums.hpp"

namespace trireme {

// The outcome of a step.
enum class StepOutcome : std::uint8_t {
  updated,
  no_targets,   // every target of the step is masked
  not_finite,   // a gradient or the loss is not finite
  above_limit,  // the loss or the gradient norm is above its limit (StepLimits)
  listed,       // train.skip_steps lists the step, so it was not computed (Trainer::skip)
  dropped,      // a rank abandoned the step; the other results are unknown
};

// Returns true if a step with this outcome has a loss and a gradient norm.
constexpr bool is_measured(StepOutcome o) {
  return o != StepOutcome::no_targets && o != StepOutcome::listed && o != StepOutcome::dropped;
}

// The largest loss and gradient norm with which a step updates the weights.
struct StepLimits {
  double loss = std::numeric_limits<double>::infinity();
  double grad_norm = std::numeric_limits<double>::infinity();
};

// The result of a step, equal on every rank.
struct StepResult {
  StepOutcome outcome = StepOutcome::updated;
  // Mean over valid targets in nats, weighted if documents have weights. With preferences, mean
  // over their pairs.
  double loss = 0;
  double grad_norm = 0;  // before clipping
  std::int64_t valid = 0;
  std::int64_t tokens = 0;  // of all samples, without padding
  // The number that prevented the update: "the gradient of" the first parameter that is not finite,
  // "the loss", or a number above its limit, with the limit.
  std::string culprit;
  // Message about a fault that a second computation of the step found. Empty if there is none.
  // After a fault, all other results are those on which two of three computations agree.
  std::string fault;
  Routing routing;
  std::optional<PreferenceSums> preferences;  // for PreferenceTraining
};

// Thrown if a sum may exceed the range of fixed-point numbers (lib/base/fixed.hpp). No weights were
// updated.
struct CountOverflow : SharedError {
  using SharedError::SharedError;
};

// Function that returns true to abandon the rest of the step. `done` of `of` micro-batches are
// complete. It is called on each rank before every micro-batch except the first, and before a step
// is computed a second time. If the step has passes before the one with gradients
// (passes_of_step()), it is also called before the first micro-batch. If one rank returns true, all
// ranks drop the step from at most most_ahead() micro-batches later on (lib/pipe/schedule.hpp), or
// skip the second computation.
using ShouldAbandon = std::function<bool(int done, int of)>;

// Whether a step is computed twice to compare the results. With exact_chunk, the second computation
// uses a different order of micro-batches. If the results differ, a third computation decides which
// result is used. Throws SharedError if the third result equals neither of the first two.
enum class Replay : std::uint8_t { no, yes };

// Thrown if weights or optimizer arrays changed between two updates, when nothing should have
// written to them.
struct MemoryFault : StateFault {
  using StateFault::StateFault;
};

// All settings of a Trainer.
struct TrainerSetup {
  ModelConfig model;  // completed, with known vocabulary
  AdapterConfig adapter;
  std::int64_t context = 0;  // tokens per sample; 0 means model.max_context
  double dropout = 0;        // as in ModelSettings
  Recompute recompute = Recompute::none;
  Offload offload = Offload::none;
  OptimizerConfig optimizer;
  ZeroConfig zero;
  std::vector<FreezeRule> freeze;
  std::vector<std::string> segments;  // further name patterns of parameters that freeze together
  std::vector<std::int64_t> stage_layers;  // blocks of each virtual stage; empty balances by cost
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;  // virtual stages per pipeline stage
  DType compute = DType::f32;
  // Type in which gradients are sent. It does not apply to fixed-point gradients.
  DType reduce = DType::f32;
  // For run.exactness = "invariant": number of tokens whose gradients are summed as one term. It
  // must divide the number of tokens of a sample on each rank. Gradients and losses are then 8-byte
  // fixed-point sums (lib/base/fixed.hpp). 0 for other values of run.exactness.
  std::int64_t exact_chunk = 0;
  std::int64_t chunk_tokens = 0;                // as in PassContext; already decided
  ProductType products = ProductType::compute;  // of linear layers
  Fp8Weights fp8{};                             // if `products` is fp8
  // Attention span. AttentionSpan::document means that batches contain the starts of documents.
  AttentionSpan attention = AttentionSpan::causal;
  std::int64_t expert_tokens = 0;              // ExpertGroup::rows_of_round
  ObjectiveSetup objective = TokenTraining{};  // a teacher is ignored if `trainable` is false
  // For a teacher: heads_of_seq() of its student. 0 if this model is not a teacher.
  std::int64_t student_heads = 0;
  Balance balance = Balance::none;
  double balance_rate = 0, balance_weight = 0, router_z = 0;  // as in TrainConfig
  double ema = 0;                                             // as in TrainConfig
  std::uint64_t seed = 1;
  std::int64_t first_step = 0;  // parameters frozen in this step start without training state
  bool trainable = true;        // false allocates no training state, for evaluation only
  // If true, digests of weights and optimizer arrays are compared between updates.
  bool check_memory = false;

  bool operator==(const TrainerSetup&) const = default;
};

// Returns the number of tokens per sample.
std::int64_t context_of(const TrainerSetup&);

// Returns the teacher's settings, or null if the objective has none.
const TeacherSetup* teacher_of(const TrainerSetup&);

// Returns the number of heads that determines how sequence-parallel ranks divide positions
// (ops::SequenceLayout). A model and its teacher must have the same rows on each rank, so both use
// the smaller number of heads.
std::int64_t heads_of_seq(const TrainerSetup&);

// Returns the pipeline for a grid with `stages` stages.
Pipeline pipeline_of(const TrainerSetup&, int stages);

// Returns the number of blocks on each virtual stage: `wanted` if it is not empty, otherwise a
// division balanced by the cost of samples with `context` tokens.
std::vector<std::int64_t> blocks_of_stages(const ModelSpec&, std::int64_t context,
                                           std::span<const std::int64_t> wanted, const Pipeline&);

// A model, its state and its pipeline on this rank.
class Trainer {
 public:
  // Allocates all memory of this rank's part of the model. Weights are meaningful only after
  // store().initialize() or loading. A Workspace of the backend must outlive this object.
  Trainer(Backend&, Axes, TrainerSetup);

  // Runs one training step on this rank's share of each micro-batch. All micro-batches must have
  // the same shape. A skipped or dropped step leaves weights, moments and update counts unchanged.
  // Either all ranks or none must pass a ShouldAbandon. Throws CountOverflow if a sum may exceed
  // the range of fixed-point numbers.
  StepResult step(std::int64_t step, double lr, std::span<const Batch> microbatches,
                  const ShouldAbandon& = {}, Replay = Replay::no, const StepLimits& = {});
  // Skips a step without computing it. Its freeze rules apply.
  StepResult skip(std::int64_t step);
  // Returns true if a ShouldAbandon can drop a step with this many micro-batches. With too few
  // micro-batches, the decision would come too late.
  bool can_drop(std::int64_t microbatches) const;
  // Returns digests of the last step's gradients (if it had any), of the weights and of the
  // optimizer's arrays. The digests are equal on every rank. Different layouts that compute the
  // same numbers have equal digests.
  DigestTable digests();
  // Throws MemoryFault if the checked memory changed since the last update.
  void check_memory();
  // Returns the loss summed over the micro-batches of all ranks. All micro-batches must have the
  // same shape. A data-parallel rank may pass fewer micro-batches than others, or none, and then
  // computes masked ones instead. Throws CountOverflow if the sum may exceed the range of
  // fixed-point numbers.
  LossSum evaluate(std::span<const Batch> microbatches);
  LossSum evaluate(const Batch& one) { return evaluate({&one, 1}); }
  // Returns the losses of the pairs or labeled answers in this rank's samples. Of the ranks that
  // share a pair, exactly one returns it. TrainerSetup::objective must be a PreferenceTraining.
  // Ranks may pass different numbers of micro-batches.
  std::vector<ScoredPair> score_pairs(std::span<const Batch> microbatches);
  // Returns the preference sums over the pairs of all ranks, of which `own` are those of this rank.
  // The loss of a labeled answer depends on the mean over all answers, z.
  PreferenceSums evaluate_pairs(std::span<const ScoredPair> own) const;
  // Returns the summed target losses of each document in this rank's samples of pairs or labeled
  // answers, by micro-batch. The losses are 0 on a stage without the head. Data-parallel ranks may
  // pass different samples.
  std::vector<double> losses_of_documents(std::span<const Batch> microbatches);
  // Returns this rank's part of the loss of each micro-batch: the sum over the rank's valid
  // targets. The parts of all ranks add up to the loss. Data-parallel ranks may pass different
  // samples. Throws Error if TrainerSetup::exact_chunk is set.
  std::vector<double> losses(std::span<const Batch> microbatches);
  // Returns the logits of the token after `ids`. The number of ids must be between 1 and the
  // model's context. Each data-parallel rank passes its own ids. In each data-parallel rank,
  // exactly one rank of the stage with the head gets the logits, and all other ranks get an empty
  // result. If `keep` is given and large enough, it receives the keys and values of this rank's
  // blocks.
  std::vector<double> logits(std::span<const std::int32_t> ids, KeyValues* keep = nullptr);
  // A sample's newest token, and the cached keys and values of the positions before it.
  struct Next {
    std::int32_t token;
    std::int64_t at;  // its position
    KeyValues* kept;
  };
  // Returns the logits after the given token for several samples whose earlier keys and values are
  // cached. Adds the keys and values of the given tokens to the caches. Each sample costs one row
  // of computation, and its result does not depend on the other samples.
  std::vector<std::vector<double>> extend(std::span<const Next>);

  // Returns this rank's share of whole samples: the positions that the sequence layout assigns to
  // this rank. Targets are counted on the stage with the head.
  Batch share(const Batch& whole) const;

  const Model& model() const { return model_; }
  Store& store() { return store_; }
  Backend& backend() { return backend_; }
  const Axes& axes() const { return axes_; }
  // Returns the teacher, or null if there is none. The teacher's weights must be loaded before the
  // first step.
  Trainer* teacher() const { return teacher_.get(); }
  // Returns the freeze states, indexed by ParamId, of the step to which the freeze rules were last
  // applied. Initially, that is TrainerSetup::first_step.
  std::span<const FreezeState> freeze_states() const { return freeze_states_; }
  // Freezes and unfreezes parameters according to the rules for `step`. step() calls this function
  // itself.
  void follow_freeze_rules(std::int64_t step);
  // Returns the first virtual stage with trained parameters, or the number of virtual stages if
  // nothing is trained. Earlier stages run only the forward pass.
  int first_trainable_stage() const;
  // Returns the seconds spent so far on determining which parameters are trainable.
  double detection_seconds() const { return detection_seconds_; }

 private:
  Layout layout() const;
  // Returns the layout of samples with `tokens` tokens.
  ops::SequenceLayout sequence_of(std::int64_t tokens) const;
  bool has_head() const { return axes_.at.pipe == pipe_.last_stage(); }
  // Counts of a step over all ranks: targets that are not masked, and tokens that are not padding.
  struct StepCounts {
    std::int64_t valid, tokens;
    // Sum of the weights of these targets, and the largest of them. Without weights of documents,
    // each target has the weight 1.
    double weight, largest_weight;
  };
  StepCounts count(std::span<const Batch>) const;
  // Results of the forward and backward passes of all micro-batches.
  struct Computed {
    StepSums sums;
    Routing routing;
  };
  // Computes the forward and backward passes of all micro-batches. Returns nullopt if micro-batches
  // were dropped.
  std::optional<Computed> compute(std::span<const Batch>, const StepCounts&, ModelStage::Settings);
  struct Replayed {
    Computed computed;
    std::string fault;
  };
  // Computes the step again, and a third time if the results differ.
  Replayed replay(const Computed& first, const ActivationDigests& activations,
                  std::span<const Batch>, const StepCounts&, ModelStage::Settings);
  void forget_dropped_arrays();
  void update(double lr, double scale, const Routing&);
  void move_router_biases(const Routing&);
  std::vector<Tensor> run_forward(std::span<const Batch>, ModelStage::Settings);
  // Returns the micro-batches, padded with masked ones to the largest number that any rank has.
  std::vector<Batch> padded(std::span<const Batch> mine) const;
  // Results of the passes that run before the pass with gradients. Losses are summed by document of
  // this rank's samples.
  struct Before {
    std::vector<double> policy, reference;
    std::vector<Tensor> teacher;  // head inputs and the head's weights
  };
  // Runs the passes of a step before the one with gradients.
  Before run_before(std::span<const Batch>, const ModelStage::Settings&);
  // Preference sums over all ranks, and weights for the losses of each micro-batch's rows. With
  // these weights, the gradient of the token losses equals the gradient of the mean preference
  // loss.
  struct Preferences {
    PreferenceSums sums;
    std::vector<std::vector<LossRows>> losses;
  };
  Preferences prefer(const PreferenceTraining&, std::span<const Batch>, const Before&);
  // Returns the scores of this rank's pairs, on all ranks that share them.
  std::vector<ScoredPair> scored_pairs(const PreferenceTraining&, std::span<const Batch>,
                                       const Before&) const;
  // Returns true on the only rank that counts the pairs that it shares with others.
  bool counts_pairs() const { return has_head() && axes_.at.seq == 0; }
  double reference_point_of(const PreferenceLoss&, std::span<const ScoredPair> own) const;
  PreferenceSums sums_of(const PreferenceLoss&, std::span<const ScoredPair> own, double z) const;
  // Returns the objective. Throws Error if this model cannot train or evaluate with it.
  const PreferenceTraining& preference_training() const;
  // Runs a pass with HeadInputs and returns its results.
  std::vector<Tensor> head_inputs(std::span<const Batch>);
  // Returns the summed losses by micro-batch and document of this rank's samples, on the stage with
  // the head.
  std::vector<double> losses_of_documents(std::span<const Batch>, ModelStage::Settings);
  // Runs the program and returns the results of the stage with the head, by micro-batch. Returns
  // nullopt if micro-batches were dropped.
  std::optional<std::vector<Tensor>> run(const Program&, Purpose, std::span<const Batch>,
                                         ModelStage::Settings);

  Backend& backend_;
  Axes axes_;
  TrainerSetup setup_;
  Model model_;
  Pipeline pipe_;
  std::vector<std::int64_t> stage_blocks_;  // by virtual stage
  std::vector<PartRange> chunks_;
  FreezeSchedule freeze_;
  std::vector<FreezeState> freeze_states_;
  Store store_;
  bool has_gradients_ = false;         // of the last step
  std::optional<DigestTable> memory_;  // after the last update
  double detection_seconds_ = 0;
  std::unique_ptr<Trainer> teacher_;
};

}  // namespace trireme
