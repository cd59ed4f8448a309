#pragma once
// ModelStage: runs chunks of a model for one microbatch forward, and later backward, with what is
// kept between. Weights come from a Session, tokens as host batches.
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/data/dataset.hpp"
#include "lib/model/model.hpp"
#include "lib/pipe/executor.hpp"
#include "lib/shard/session.hpp"
#include "lib/train/chunk.hpp"
#include "lib/train/offload.hpp"
#include "lib/train/replay.hpp"

namespace trireme {

// How a trace names one microbatch's way through a chunk.
inline constexpr std::string_view forward_span = "forward", backward_span = "backward",
                                  input_span = "input gradients", weight_span = "weight gradients",
                                  measured_span = "log-probabilities", teacher_span = "teacher";

class ModelStage final : public Stage {
 public:
  // What comes with every call beside the microbatch itself.
  struct When {
    Phase phase = Phase::train;
    std::uint64_t seed = 0;
    std::int64_t step = 0;
    double scale = 1;                       // 1 / valid targets of the whole step
    double balance_scale = 0, z_scale = 0;  // Place's
    // Place's of each microbatch, where there are some; of the last stage.
    std::span<const std::vector<LossRows>> losses = {};
    std::int64_t loss_sums = 1;
    bool adapters = true;
    const ExpertGroup* experts = nullptr;   // null: this rank has all
    const RoutingTotals* totals = nullptr;  // gets what routers add up; null: nothing
    // Instead of the loss, the last stage makes the logits [1, V] that follow position `logits_at`
    // of its share of sample 0; none: another rank holds that position.
    bool logits = false;
    std::optional<std::int64_t> logits_at = std::nullopt;
    // Instead of the loss, the last stage keeps what goes into the head of each microbatch.
    bool head_inputs = false;
    // Of a teacher, on the last stage: what it kept so, and behind that its head's weights.
    std::span<const Tensor> teacher = {};
    TaughtBy taught = {};  // without what goes into its head
    // Keys and values of earlier positions; where they are extended, the logits are those of all
    // rows, [B, V].
    const Cached* cached = nullptr;
    std::int64_t exact_chunk = 0, chunk_tokens = 0;  // Place's
    // Asked on all ranks before each microbatch but the first: are this and those after it left
    // out? The same answer everywhere. Empty: never.
    std::function<bool(int microbatch)> drop = {};
    ActivationDigests* activations = nullptr;  // gets what the parts make; null: none
    bool offload = false;  // inputs that are kept to run forward again wait on the host
    std::string_view forward_name = forward_span;  // in a trace
  };
  // This rank's share of each microbatch, by the layout: the positions of its place in seq. Ids are
  // read on the first stage, targets on the last, starts of documents on all.
  ModelStage(const Model&, std::span<const Chunk>, Session&, Backend&, const Communicator& seq,
             const ops::SequenceLayout&, std::span<const Batch> microbatches, Recompute, When);

  Boundary boundary() const override;
  void begin(int m) override;
  bool leaves_out(int m) const override { return m >= dropped_from_; }
  Tensor forward(int m, int chunk, Tensor x_BTC) override;
  Tensor backward(int m, int chunk, Tensor dy_BTC) override;
  Tensor input_gradients(int m, int chunk, Tensor dy_BTC) override;
  void weight_gradients(int m, int chunk) override;

  // After the program, on the last stage: of each microbatch what its head makes
  // (lib/ops/head.hpp); or the logits; or what goes into its head, and behind these its weights.
  std::span<const Tensor> results() const { return results_; }
  bool dropped() const { return dropped_from_ < static_cast<int>(batches_.size()); }

 private:
  struct Kept {
    // Present, the one or the other: run forward again first.
    Tensor input;
    OffloadedTensor offloaded;
    Tape tape;
    std::int32_t leaf = -1, root = -1;
  };
  struct Microbatch {
    Tensor ids_BT, targets_BT;                              // i32
    Tensor sample_B;                                        // i64
    Tensor start_BT, position_BT, position_T, counted_RBT;  // i32, Place's
    std::vector<Kept> parts;                                // of those that need backward
    std::vector<Tape> later;  // of those whose weight gradients are to come, the last first
  };
  const Chunk& chunk_of(int chunk) const { return chunks_[static_cast<std::size_t>(chunk)]; }
  std::string_view first_unit(const Part& p) const {
    return model_.spec().units[p.units()[0].unit.index()];
  }
  Microbatch upload(const Chunk&, const Batch&) const;
  Run run_of(const Microbatch&, int m, const Weights&, Gradients*,
             const RoutingTotals* = nullptr) const;
  Tensor run_part(const Chunk&, std::size_t i, int m, Microbatch&, Tensor x);
  // Whole, or its first half.
  Tensor run_backward(const Instruction&, Tensor dy);
  void make_logits(const Chunk&, const Microbatch&, const Tensor& x_BTC);
  void keep_head_input(const Chunk&, int m, Tensor x_BTC);

  const Model& model_;
  std::span<const Chunk> chunks_;
  Session& session_;
  Backend& backend_;
  const Communicator& seq_;
  const ops::SequenceLayout& sequence_;
  std::span<const Batch> batches_;
  Recompute recompute_;
  When when_;
  int dropped_from_;
  Event before_{};                                  // of what was queued before the last microbatch
  std::map<std::pair<int, int>, Microbatch> kept_;  // by microbatch and chunk
  std::vector<Tensor> results_;
};

}  // namespace trireme
