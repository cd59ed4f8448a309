#pragma once
// Divides a model's parts (embedding, blocks, final norm, head) among pipeline stages. Each stage
// runs one or more chunks of consecutive parts. The chunks determine what the stage's program
// borrows. All functions are pure.
#include <span>
#include <vector>

#include "lib/model/model.hpp"
#include "lib/pipe/schedule.hpp"
#include "lib/shard/borrow.hpp"

namespace trireme {

// The range [begin, end) of a model's parts.
struct PartRange {
  std::size_t begin = 0, end = 0;
};

// Returns the parts of a virtual stage. `blocks[stage]` is the number of blocks on each virtual
// stage. The first virtual stage begins with the embedding. The last virtual stage ends with the
// final norm and the head.
PartRange stage_parts(std::span<const std::int64_t> blocks, std::size_t stage);
// Returns the parts of each chunk of a pipeline stage.
std::vector<PartRange> chunk_parts(std::span<const std::int64_t> blocks, const Pipeline&,
                                   int stage);
// Returns the units that the parts borrow, in order and without duplicates.
std::vector<UnitId> units_of(const Model&, std::span<const PartRange>);

// Which parts of a range have a backward pass, indexed by part.
struct BackwardParts {
  std::vector<std::uint8_t> trains;  // the part has a trainable parameter
  // Whether a part needs a backward pass: if the part or an earlier part trains, or if the previous
  // stage needs a gradient. A frozen prefix of the model has no backward pass.
  std::vector<std::uint8_t> needed;
  bool input = false;  // the previous stage needs a gradient
};
// Determines which parts of a range have a backward pass. `trainable` is indexed by ParamId.
// `input_wanted` is true if the previous stage needs a gradient.
BackwardParts backward_parts(const Model&, PartRange, std::span<const std::uint8_t> trainable,
                             bool input_wanted);

// A range of parts that a stage runs at a time, and their backward pass. Part indices count from
// the beginning of the chunk.
class Chunk {
 public:
  Chunk(const Model& model, PartRange range, BackwardParts backward)
      : model_(&model), range_(range), backward_(std::move(backward)) {}

  std::size_t size() const { return range_.end - range_.begin; }
  const Part& part(std::size_t i) const { return *model_->parts()[place(i)]; }
  // Returns the index of a part in the whole model.
  std::size_t place(std::size_t i) const { return range_.begin + i; }
  bool first() const { return range_.begin == 0; }
  bool last() const { return range_.end == model_->parts().size(); }

  const BackwardParts& backward() const { return backward_; }
  bool needed(std::size_t i) const { return backward_.needed[i] != 0; }
  // early() returns true if a part's weight gradients are computed in the forward pass. late()
  // returns true if they are computed in the backward pass.
  bool early(std::size_t i) const { return adds_in(i, GradientsIn::forward); }
  bool late(std::size_t i) const { return adds_in(i, GradientsIn::backward); }
  // early_units() and late_units() return the units to whose gradients a part adds in the forward
  // or backward pass.
  std::span<const Borrow> early_units(std::size_t i) const { return units_if(early(i), i); }
  std::span<const Borrow> late_units(std::size_t i) const { return units_if(late(i), i); }
  // Returns the units whose weights a part reads to compute input gradients. Computing weight
  // gradients reads no weights.
  std::span<const Borrow> read_backward(std::size_t i) const {
    return units_if(part(i).backward_reads() == BackwardReads::weights, i);
  }
  // Returns true if the gradient of the part's input is needed.
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

// Returns all borrows of a program, in order. ModelStage must visit the parts in the same order.
std::vector<Visit> visits(const Program&, std::span<const Chunk>);

}  // namespace trireme
