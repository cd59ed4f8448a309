#pragma once
// Trainer: one optimizer step at a time on this rank's share of a model; also its evaluation and
// logits. What a step needs of the outside (tokens, learning rate) comes as values, so the same
// code runs a training, a test and a plan. Every call is collective over Axes::world.
#include <cstdint>
#include <functional>
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
#include "lib/train/preference.hpp"
#include "lib/train/routing.hpp"
#include "lib/train/stage.hpp"
#include "lib/train/state_fault.hpp"
#include "lib/train/sums.hpp"

namespace trireme {

enum class Verdict : std::uint8_t {
  updated,
  no_targets,  // every target of the step is masked
  not_finite,  // a gradient or the loss is not finite
  dropped,     // a rank gave it up; its other results are not known
};

// Equal on every rank.
struct StepResult {
  Verdict verdict = Verdict::updated;
  double loss = 0;       // mean over valid targets, or of pairs over them; natural logarithm
  double grad_norm = 0;  // before clipping
  std::int64_t valid = 0;
  std::int64_t tokens = 0;  // of all samples, padding left out
  std::string culprit;      // not_finite: "the gradient of" the first parameter, or "the loss"
  std::string fault;  // what a second computation found; the rest is what two of three agree on
  Routing routing;
  std::optional<PreferenceSums> preferences;  // of Objective::dpo, over the step's pairs
};

// A sum may be larger than counts of quanta can be (lib/base/fixed.hpp). Nothing was updated.
struct CountOverflow : SharedError {
  using SharedError::SharedError;
};

// Asked of each rank before each microbatch of a step but the first, of pairs before the first,
// too, and before a step is computed a second time: may the rest not be waited for? One rank that
// says yes drops the step on all, from most_ahead() microbatches later on (lib/pipe/schedule.hpp);
// a second time is left out.
using GiveUp = std::function<bool(int done, int of)>;

// Is forward and backward computed twice, to compare what comes of it? With exact_chunk the second
// time in another order of microbatches. Where they differ, a third computation decides;
// SharedError when it agrees with neither.
enum class Replay : std::uint8_t { no, yes };

// Weights or the optimizer's arrays changed between two updates.
struct MemoryFault : StateFault {
  using StateFault::StateFault;
};

// Of Objective::dpo, what log-probabilities are compared with: those of the model without adapters,
// which another pass computes, or those that batches bring (Batch::reference_D).
enum class Reference : std::uint8_t { without_adapters, given };

// Of Objective::distill: a frozen model of the same vocabulary, run forward before each step.
struct TeacherSetup {
  ModelConfig model;  // of samples as long as those of the model that learns
  double temperature = 1, weight = 0.5;
};

struct TrainerSetup {
  ModelConfig model;  // completed, vocab known
  OptimizerConfig optimizer;
  ZeroConfig zero;
  std::vector<FreezeRule> freeze;
  std::vector<std::string> segments;       // further patterns of what freezes together
  std::vector<std::int64_t> stage_layers;  // blocks of each virtual stage; empty: chosen by cost
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;  // of each stage, as the schedule takes them
  DType compute = DType::f32;
  DType reduce = DType::f32;  // gradients on the wire, unless they are counted
  // run.exactness = "invariant": tokens that are summed as one, a divisor of a rank's T; 0: another
  // exactness. Gradients and losses are then sums of counts (lib/base/fixed.hpp), as 8 bytes each.
  std::int64_t exact_chunk = 0;
  std::int64_t chunk_tokens = 0;                    // Place's; decided
  AttentionSpan attention = AttentionSpan::causal;  // what batches have starts of documents for
  std::int64_t expert_tokens = 0;                   // ExpertGroup::rows_of_round
  Objective objective = Objective::tokens;
  double dpo_beta = 0.1;  // also of evaluate_pairs
  Reference reference = Reference::without_adapters;
  std::optional<TeacherSetup> teacher{};  // nothing where nothing trains
  // Of a teacher, heads_of_seq of its student; 0: it is none.
  std::int64_t student_heads = 0;
  Balance balance = Balance::none;
  double balance_rate = 0, balance_weight = 0, router_z = 0;  // as of TrainConfig
  std::uint64_t seed = 1;
  std::int64_t first_step = 0;  // what is frozen then has no training state from the start
  bool trainable = true;        // false: to be evaluated only, without what training needs
  // Are weights and arrays compared, from one update to the next, by their digests?
  bool check_memory = false;
};

// By so many heads ranks of seq share positions (ops::SequenceLayout). A model and its teacher see
// the same rows on each rank: those of the one with fewer heads.
std::int64_t heads_of_seq(const TrainerSetup&);

// The pipeline on a grid with that many stages.
Pipeline pipeline_of(const TrainerSetup&, int stages);

// Blocks of each virtual stage: as the deck says, or by cost.
std::vector<std::int64_t> blocks_of_stages(const ModelSpec&, std::span<const std::int64_t> wanted,
                                           const Pipeline&);

class Trainer {
 public:
  // Takes all memory of this rank's share; weights are undefined until store().initialize() or
  // loaded. The backend needs a Workspace as long as this lives.
  Trainer(Backend&, Axes, TrainerSetup);

  // One step: this rank's share of each microbatch, all of one shape. A skipped step leaves
  // weights, moments and counts alone, a dropped one too. All ranks give a GiveUp, or none does.
  // Throws CountOverflow.
  StepResult step(std::int64_t step, double lr, std::span<const Batch> microbatches,
                  const GiveUp& = {}, Replay = Replay::no);
  // Of the last step's gradients, where it had any, weights and the optimizer's arrays; the same on
  // every rank and for every layout that has the same numbers.
  DigestTable digests();
  // Throws MemoryFault when what is checked changed since the last update.
  void check_memory();
  // The sum over all ranks' microbatches, of one shape. A data rank may bring fewer than others,
  // or none: it runs along on masked ones.
  LossSum evaluate(std::span<const Batch> microbatches);
  LossSum evaluate(const Batch& one) { return evaluate({&one, 1}); }
  // The same of samples of pairs (Dataset::pairs), against TrainerSetup::reference.
  PreferenceSums evaluate_pairs(std::span<const Batch> microbatches);
  // By microbatch and document of this rank's samples of pairs, the sum of its targets' losses; 0
  // of each on a stage without the head. Data ranks may bring different ones, as in evaluate.
  std::vector<double> losses_of_documents(std::span<const Batch> microbatches);
  // This rank's part of each microbatch's loss, a sum over its valid targets: the ranks' parts add
  // to it. Data ranks may bring different ones, as in evaluate. Not for exact_chunk.
  std::vector<double> losses(std::span<const Batch> microbatches);
  // Logits of the token after the last of `ids`, at most context of them; for each data rank of its
  // own ids. Empty on all ranks but one of the stage with the head (of each data rank). `keep`, if
  // given and with room for them, gets the keys and values of this rank's blocks.
  std::vector<double> logits(std::span<const std::int32_t> ids, KeyValues* keep = nullptr);
  // The same for the next token of each of some samples, whose keys and values before it are kept
  // and joined by its own: one row of work each, with the same bits whatever samples stand beside
  // it. Needs BackendProperties::caches.
  struct Next {
    std::int32_t token;
    std::int64_t at;  // its position
    KeyValues* kept;
  };
  std::vector<std::vector<double>> extend(std::span<const Next>);

  // This rank's share of whole samples: the positions of its place in seq. Targets count on the
  // stage with the head.
  Batch share(const Batch& whole) const;

  const Model& model() const { return model_; }
  Store& store() { return store_; }
  Backend& backend() { return backend_; }
  const Axes& axes() const { return axes_; }
  // The model that this one learns from, whose weights are undefined likewise; null: none.
  Trainer* teacher() const { return teacher_.get(); }
  // By ParamId: what the rules make of it in the step that they were followed to last, at first
  // TrainerSetup::first_step.
  std::span<const FreezeState> freeze_states() const { return freeze_states_; }
  // Freezes and thaws as the rules say for this step, which step() does by itself.
  void follow_freeze_rules(std::int64_t step);
  // Virtual stages before it run forward alone; the number of them: nothing trains.
  int first_trainable_stage() const;
  // Seconds spent so far on finding out what is trainable.
  double detection_seconds() const { return detection_seconds_; }

 private:
  Layout layout() const;
  // Of samples of so many tokens.
  ops::SequenceLayout sequence_of(std::int64_t tokens) const;
  bool has_head() const { return axes_.at.pipe == pipe_.last_stage(); }
  // Of a step, over all ranks: targets that are not masked, and tokens that are no padding.
  struct StepCounts {
    std::int64_t valid, tokens;
  };
  StepCounts count(std::span<const Batch>) const;
  // What forward and backward of all microbatches come to.
  struct Computed {
    StepSums sums;
    Routing routing;
  };
  // Nothing when some microbatches were dropped.
  std::optional<Computed> compute(std::span<const Batch>, const StepCounts&, ModelStage::When);
  struct Replayed {
    Computed computed;
    std::string fault;
  };
  // Once more, and a third time where that differs.
  Replayed replay(const Computed& first, const ActivationDigests& activations,
                  std::span<const Batch>, const StepCounts&, ModelStage::When);
  void forget_dropped_arrays();
  void update(double lr, double scale, const Routing&);
  void move_router_biases(const Routing&);
  std::vector<Tensor> run_forward(std::span<const Batch>, ModelStage::When);
  // As many microbatches as any rank has, where this one has fewer: those without a target.
  std::vector<Batch> padded(std::span<const Batch> mine) const;
  // Of samples of pairs: what their log-probabilities come to, over all ranks, and for each
  // microbatch how its rows' losses are weighted so that their gradient is that of the pairs' mean.
  struct Preferences {
    PreferenceSums sums;
    std::vector<std::vector<LossRows>> losses;
  };
  Preferences prefer(std::span<const Batch>, const ModelStage::When&);
  // ModelStage::When::head_inputs.
  std::vector<Tensor> head_inputs(std::span<const Batch>);
  // By microbatch and document of this rank's samples, on the stage with the head: the losses' sum.
  std::vector<double> losses_of_documents(std::span<const Batch>, ModelStage::When);
  // Of the stage with the head, by microbatch; nothing when the rest of them was dropped.
  std::optional<std::vector<Tensor>> run(const Program&, Purpose, std::span<const Batch>,
                                         ModelStage::When);

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
