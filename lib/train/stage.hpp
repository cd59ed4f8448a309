#pragma once
// ModelStage runs the forward and backward passes of a pipeline stage's chunks, one micro-batch at
// a time, and stores what the backward pass needs. Weights come from a Session. Tokens come from
// batches in host memory.
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lib/data/dataset.hpp"
#include "lib/model/model.hpp"
#include "lib/pipe/executor.hpp"
#include "lib/shard/session.hpp"
#include "lib/train/chunk.hpp"
#include "lib/train/config.hpp"
#include "lib/train/offload.hpp"
#include "lib/train/replay.hpp"

namespace trireme {

// Names in a trace for the passes of one micro-batch through a chunk.
inline constexpr std::string_view forward_span = "forward", backward_span = "backward",
                                  input_span = "input gradients", weight_span = "weight gradients",
                                  measured_span = "log-probabilities", teacher_span = "teacher";

// What the last stage computes from the inputs of the head. A pass computes one of the following:
// The sum of the losses of all targets.
struct HeadLoss {};
// Loss sums of ranges of rows (PassContext::losses), by micro-batch.
struct HeadLossesOfRows {
  std::span<const std::vector<LossRows>> rows;
  std::int64_t sums = 1;
};
// The loss with the divergence from a teacher: the teacher's head inputs by micro-batch, followed
// by the teacher's head weights.
struct HeadLossOfTaught {
  std::span<const Tensor> teacher;
  TeacherHead settings;       // without the head's input and weights
  HeadLossesOfRows losses{};  // without rows, the sum of the losses of all targets
};
// The logits [1, V] after position `at` of this rank's share of sample 0. If `at` is absent,
// another rank has that position. `cached` has cached keys and values of earlier positions. If the
// program extends these caches, the logits are those of all rows, [B, V].
struct HeadLogits {
  std::optional<std::int64_t> at = std::nullopt;
  const Cached* cached = nullptr;
};
// No computation: the head's input of each micro-batch is stored, and the head's weights.
struct HeadInputs {};
using HeadWork = std::variant<HeadLoss, HeadLossesOfRows, HeadLossOfTaught, HeadLogits, HeadInputs>;

// One pipeline stage of a model, as the pipeline executor uses it.
class ModelStage final : public Stage {
 public:
  // Parameters that apply to all micro-batches of a program.
  struct Settings {
    Phase phase = Phase::train;
    std::uint64_t seed = 0;
    std::int64_t step = 0;
    double scale = 1;                       // as in PassContext
    double balance_scale = 0, z_scale = 0;  // as in PassContext
    HeadWork head = HeadLoss{};
    bool adapters = true;
    const ExpertGroup* experts = nullptr;   // null means that this rank has all experts
    const RoutingTotals* totals = nullptr;  // receives the totals of routers; null discards them
    std::int64_t exact_chunk = 0, chunk_tokens = 0;  // as in PassContext
    // Called on all ranks before each micro-batch except the first. Returns true to skip this
    // micro-batch and all later ones. The result must be equal on every rank. An empty function
    // never skips.
    std::function<bool(int microbatch)> drop = {};
    // Receives digests of what the parts compute. Null disables the digests.
    ActivationDigests* activations = nullptr;
    bool offload = false;  // keep the inputs for recomputation in host memory
    std::string_view forward_name = forward_span;  // in a trace
  };
  // `microbatches` contains this rank's share of each micro-batch, which is its positions in the
  // sequence layout. The first stage reads ids, the last stage reads targets, and all stages read
  // document starts.
  ModelStage(const Model&, std::span<const Chunk>, Session&, Backend&, const Communicator& seq,
             const ops::SequenceLayout&, std::span<const Batch> microbatches, Recompute, Settings);

  Boundary boundary() const override;
  void begin(int m) override;
  bool leaves_out(int m) const override { return m >= dropped_from_; }
  Tensor forward(int m, int chunk, Tensor x_BTC) override;
  Tensor backward(int m, int chunk, Tensor dy_BTC) override;
  Tensor input_gradients(int m, int chunk, Tensor dy_BTC) override;
  void weight_gradients(int m, int chunk) override;

  // Returns the last stage's results, by micro-batch, after the program: the head's output
  // (lib/ops/head.hpp), or the logits, or the head's inputs followed by the head's weights.
  std::span<const Tensor> results() const { return results_; }
  bool dropped() const { return dropped_from_ < static_cast<int>(batches_.size()); }

 private:
  // Data that a part stores for its backward pass.
  struct Kept {
    // Input for recomputation. If `input` or the offloaded input is present, the forward pass is
    // recomputed first.
    Tensor input;
    OffloadedTensor offloaded;
    Tape tape;
    std::int32_t leaf = -1, root = -1;
  };
  // A micro-batch on the device, and the data stored for its backward pass.
  struct Microbatch {
    Tensor ids_BT, targets_BT;                              // i32
    Tensor sample_B;                                        // i64
    Tensor start_BT, position_BT, position_T, counted_RBT;  // i32, as in PassContext
    std::vector<Kept> parts;  // of the parts that need a backward pass
    std::vector<Tape> later;  // tapes with weight gradients to compute, the last one first
  };
  const Chunk& chunk_of(int chunk) const { return chunks_[static_cast<std::size_t>(chunk)]; }
  std::string_view first_unit(const Part& p) const {
    return model_.spec().units[p.units()[0].unit.index()];
  }
  Microbatch upload(const Chunk&, const Batch&) const;
  Run run_of(const Microbatch&, int m, const Weights&, Gradients*,
             const RoutingTotals* = nullptr) const;
  Tensor run_part(const Chunk&, std::size_t i, int m, Microbatch&, Tensor x);
  // Runs the whole backward pass, or its first half (input gradients).
  Tensor run_backward(const Instruction&, Tensor dy);
  // Returns the settings if the head does this work, otherwise null.
  template <class Work>
  const Work* head_does() const {
    return std::get_if<Work>(&settings_.head);
  }
  const Cached* cached() const;
  void make_logits(const Chunk&, const HeadLogits&, const Microbatch&, const Tensor& x_BTC);
  void keep_head_input(const Chunk&, int m, Tensor x_BTC);

  const Model& model_;
  std::span<const Chunk> chunks_;
  Session& session_;
  Backend& backend_;
  const Communicator& seq_;
  const ops::SequenceLayout& sequence_;
  std::span<const Batch> batches_;
  Recompute recompute_;
  Settings settings_;
  int dropped_from_;
  Event before_{};                                  // queued before the previous micro-batch
  std::map<std::pair<int, int>, Microbatch> kept_;  // by micro-batch and chunk
  std::vector<Tensor> results_;
};

}  // namespace trireme
