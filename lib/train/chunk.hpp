#pragma once
// Which parts of a model a stage runs, as one chunk or several, and what its program borrows for
// them. Pure.
#include <span>
#include <vector>

#include "lib/model/model.hpp"
#include "lib/pipe/schedule.hpp"
#include "lib/shard/borrow.hpp"

namespace trireme {

// Parts [begin, end) of a model.
struct PartRange {
  std::size_t begin = 0, end = 0;
};

// The parts of a virtual stage that holds `blocks[stage]` blocks: the first begins with the
// embedding, the last ends with final norm and head.
PartRange stage_parts(std::span<const std::int64_t> blocks, std::size_t stage);
// Of each chunk of a stage.
std::vector<PartRange> chunk_parts(std::span<const std::int64_t> blocks, const Pipeline&,
                                   int stage);
// What they borrow, each unit once, in order.
std::vector<UnitId> units_of(const Model&, std::span<const PartRange>);

// What of a range of parts runs backward, by part.
struct BackwardParts {
  std::vector<std::uint8_t> trains;  // it has a trainable parameter
  // It or a part before it trains, or a gradient must flow on: a frozen prefix has no backward.
  std::vector<std::uint8_t> needed;
  bool input = false;  // the stage before wants a gradient
};
BackwardParts backward_parts(const Model&, PartRange, std::span<const std::uint8_t> trainable,
                             bool input_wanted);

class Chunk {
 public:
  Chunk(const Model& model, PartRange range, BackwardParts backward)
      : model_(&model), range_(range), backward_(std::move(backward)) {}

  std::size_t size() const { return range_.end - range_.begin; }
  const Part& part(std::size_t i) const { return *model_->parts()[place(i)]; }
  // Of a part among the model's.
  std::size_t place(std::size_t i) const { return range_.begin + i; }
  bool first() const { return range_.begin == 0; }
  bool last() const { return range_.end == model_->parts().size(); }

  const BackwardParts& backward() const { return backward_; }
  bool needed(std::size_t i) const { return backward_.needed[i] != 0; }
  // Are a part's gradients made in forward, or in backward?
  bool early(std::size_t i) const { return adds_in(i, GradientsIn::forward); }
  bool late(std::size_t i) const { return adds_in(i, GradientsIn::backward); }
  // The units to whose gradients a part adds then.
  std::span<const Borrow> early_units(std::size_t i) const { return units_if(early(i), i); }
  std::span<const Borrow> late_units(std::size_t i) const { return units_if(late(i), i); }
  // The units whose weights a part's backward reads. Weight gradients read none.
  std::span<const Borrow> read_backward(std::size_t i) const {
    return units_if(part(i).backward_reads() == BackwardReads::weights, i);
  }
  // Does the gradient of a part's input flow on?
  bool input_wanted(std::size_t i) const { return i > 0 ? needed(i - 1) : backward_.input; }

 private:
  bool adds_in(std::size_t i, GradientsIn pass) const {
    return backward_.trains[i] && part(i).gradients_in() == pass;
  }
  std::span<const Borrow> units_if(bool wanted, std::size_t i) const {
    return wanted ? part(i).units() : std::span<const Borrow>();
  }

  const Model* model_;
  PartRange range_;
  BackwardParts backward_;
};

// What a program borrows, in its order; ModelStage visits in the same order.
std::vector<Visit> visits(const Program&, std::span<const Chunk>);

}  // namespace trireme
