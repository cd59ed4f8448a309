#pragma once
// ModelStage: runs a range of a model's parts for one microbatch forward, and later backward, with
// what is kept between. Weights come from a Session, tokens as host batches.
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/data/dataset.hpp"
#include "lib/model/model.hpp"
#include "lib/pipe/executor.hpp"
#include "lib/shard/session.hpp"
#include "lib/train/replay.hpp"

namespace trireme {

// Parts [begin, end) of a model.
struct PartRange {
  std::size_t begin = 0, end = 0;
};

// The parts of a stage that holds `blocks[stage]` blocks: the first begins with the embedding, the
// last ends with final norm and head.
PartRange stage_parts(std::span<const std::int64_t> blocks, std::size_t stage);
// What they borrow, each unit once, in order.
std::vector<UnitId> units_of(const Model&, PartRange);

// What of a stage runs backward, by part of its range.
struct BackwardParts {
  std::vector<std::uint8_t> trains;  // it has a trainable parameter
  // It or a part before it trains, or a gradient must flow on: a frozen prefix has no backward.
  std::vector<std::uint8_t> needed;
  bool input = false;  // the stage before wants a gradient
};
BackwardParts backward_parts(const Model&, PartRange, std::span<const std::uint8_t> trainable,
                             bool input_wanted);
// What a program borrows, in its order. Pure; ModelStage visits in the same order.
std::vector<Visit> visits(const Program&, const Model&, PartRange, const BackwardParts&);

// How a trace names one microbatch's way through a stage.
inline constexpr std::string_view forward_span = "forward", backward_span = "backward";

class ModelStage final : public Stage {
 public:
  // What comes with every call beside the microbatch itself.
  struct When {
    Phase phase = Phase::train;
    std::uint64_t seed = 0;
    std::int64_t step = 0;
    double scale = 1;  // 1 / valid targets of the whole step
    // Instead of the loss, the last stage makes the logits [1, V] that follow position `logits_at`
    // of its share of sample 0; none: another rank holds that position.
    bool logits = false;
    std::optional<std::int64_t> logits_at = std::nullopt;
    // Keys and values of earlier positions; where they are extended, the logits are those of all
    // rows, [B, V].
    const Cached* cached = nullptr;
    std::int64_t exact_chunk = 0;  // Place's
    bool graphs = false;           // each call is one piece of work to the backend; for one rank
    // Asked on all ranks before each microbatch but the first: are this and those after it left
    // out? The same answer everywhere. Empty: never.
    std::function<bool(int microbatch)> drop = {};
    Trail* trail = nullptr;  // gets what the parts make; null: none
  };
  // This rank's share of each microbatch: the positions of its place in seq. Ids are read on the
  // first stage, targets on the last, starts of documents on all.
  ModelStage(const Model&, PartRange, Session&, Backend&, const Communicator& seq,
             std::span<const Batch> microbatches, BackwardParts, Recompute, When);

  Boundary boundary() const override;
  void begin(int m) override;
  bool leaves_out(int m) const override { return m >= dropped_from_; }
  Tensor forward(int m, Tensor x_BTC) override;
  Tensor backward(int m, Tensor dy_BTC) override;

  // After the program, on the last stage: one f64 each microbatch, the sum over its valid targets;
  // or the logits.
  std::span<const Tensor> results() const { return results_; }
  bool dropped() const { return dropped_from_ < static_cast<int>(batches_.size()); }

 private:
  struct Kept {
    Tensor input;  // present: run forward again first
    Tape tape;
    std::int32_t leaf = -1, root = -1;
  };
  struct Microbatch {
    Tensor ids_BT, targets_BT;     // i32
    Tensor sample_B;               // i64
    Tensor start_BT, position_BT;  // i32, Place's
    std::vector<Kept> parts;       // of those that need backward
  };
  bool first() const { return range_.begin == 0; }
  bool last() const { return range_.end == model_.parts().size(); }
  const Part& part(std::size_t i) const { return *model_.parts()[range_.begin + i]; }
  std::string_view first_unit(const Part& p) const {
    return model_.spec().units[p.units()[0].unit.index()];
  }
  // Are a part's gradients made in forward, or in backward?
  bool early(std::size_t i) const {
    return backward_.trains[i] && part(i).gradients_in() == GradientsIn::forward;
  }
  bool late(std::size_t i) const {
    return backward_.trains[i] && part(i).gradients_in() == GradientsIn::backward;
  }
  // The units whose weights a part's backward reads.
  std::span<const Borrow> read_backward(std::size_t i) const {
    return part(i).backward_reads() == BackwardReads::weights ? part(i).units()
                                                              : std::span<const Borrow>();
  }
  // Does the gradient of a part's input flow on?
  bool input_wanted(std::size_t i) const {
    return i > 0 ? backward_.needed[i - 1] != 0 : backward_.input;
  }
  Microbatch upload(const Batch&) const;
  Run run_of(const Microbatch&, int m, const Weights&, Gradients*) const;
  std::uint64_t graph_of(Direction, int m) const;  // alike: the same number
  Tensor run_part(std::size_t i, int m, Microbatch&, Tensor x);
  void make_logits(const Microbatch&, const Tensor& x_BTC);

  const Model& model_;
  PartRange range_;
  Session& session_;
  Backend& backend_;
  const Communicator& seq_;
  std::span<const Batch> batches_;
  BackwardParts backward_;
  Recompute recompute_;
  When when_;
  int dropped_from_;
  Event before_{};  // of what was queued before the last microbatch
  std::map<int, Microbatch> kept_;
  std::vector<Tensor> results_;
};

}  // namespace trireme
