#pragma once
// Lower bounds on time and memory of a choice (a grid with its settings), computed from recordings
// of models with one and two blocks of a type. Each recording is made once and reused for all
// choices to which it applies.
#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <tuple>

#include "lib/predict/choices.hpp"
#include "lib/predict/machine.hpp"

namespace trireme {

// Computes and caches the bounds. Keeps references to the constructor's arguments, which must
// outlive this object.
class SearchBounds {
 public:
  SearchBounds(const PlanInput&, const DryTarget&, const MachineModel&);

  double seconds(const RunChoice&);  // lower bound on the seconds of a step
  double bytes(const RunChoice&);    // lower bound on the bytes of a rank

 private:
  // Whether a block has one MLP (dense) or experts (mixture).
  enum BlockType : std::uint8_t { dense, mixture };
  static constexpr std::array block_types = {dense, mixture};
  // Numbers of blocks of each type. `full` are the blocks that surely compute all gradients, as the
  // recorded models do: no [[freeze]] rule freezes any of their parameters, and a block before them
  // is trained. All other blocks count with their forward pass and weights only.
  struct Count {
    std::array<std::int64_t, 2> all{}, full{};
  };

  // Lower bounds for one micro-batch of one block on one rank.
  struct Block {
    double forward = 0, backward = 0;  // seconds, including the exchanges that they wait for
    // Seconds by which the backward pass of the model's first block is shorter than `backward`.
    // With adapters, this block computes no gradient of its input.
    double less_in_first = 0;
    double rest = 0;   // seconds of embedding and head, forward and backward pass
    double saved = 0;  // bytes kept from the forward to the backward pass
    double both() const { return forward + backward; }
  };
  // Seconds of a block's messages on one communicator: once per step, and additionally per
  // micro-batch.
  struct Messages {
    double step = 0, microbatch = 0;
    double of(double microbatches) const { return step + microbatches * microbatch; }
  };
  // Messages that gather weights and reduce gradients. The first entry is for all weights except
  // distributed experts, and the second entry is for distributed experts.
  struct Shard {
    std::array<Messages, 2> gather, scatter;
  };
  // Numbers of weights in a block: all weights except distributed experts, and the weights of one
  // expert.
  struct Parameters {
    double stage = 0, of_expert = 0;
  };
  // Sums of the blocks' seconds on a stage.
  struct StageSums {
    double forward = 0, both = 0, gather = 0, scatter = 0;
  };

  // Returns the bounds for a block. `stage` is the pipeline stage, because ranks of different
  // stages may be placed on nodes differently.
  const Block& block(const RunChoice&, int stage, BlockType);
  const Shard& shard(const RunChoice&, int stage, BlockType);
  StageSums sums(const RunChoice&, int stage);
  // Returns a lower bound on the bytes of a rank's state.
  double state_bytes(const RunChoice&, const Count&) const;
  double gathered_bytes(const RunChoice&, const Count&, double bytes_each) const;
  // Returns the seconds of a queue, given the seconds of its two communicators.
  double on_queue(const std::array<double, 2>&) const;
  // Returns the number of ranks of earlier stages that are on the node where `stage` begins
  // (Placement::before). Returns 0 if groups of these sizes are placed on nodes in the same way on
  // all stages.
  int before(const RunChoice&, int stage, std::initializer_list<int> sizes) const;
  // Returns the type of the model's first block.
  BlockType first_type() const;
  // Returns the numbers of blocks on each virtual stage.
  const std::vector<Count>& blocks(const Pipeline&);

  const PlanInput& input_;
  const DryTarget& target_;
  const MachineModel& machine_;
  std::array<Parameters, 2> parameters_;  // indexed by BlockType
  std::vector<bool> full_;                // indexed by block
  std::map<std::tuple<int, int, std::int64_t, Recompute, int, BlockType>, std::optional<Block>>
      blocks_;
  std::map<std::tuple<int, int, int, int, ZeroCadence, ZeroCadence, int, BlockType>, Shard> shards_;
  std::map<std::tuple<ScheduleKind, int, int>, std::vector<Count>> stages_;
};

}  // namespace trireme
