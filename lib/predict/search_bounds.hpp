#pragma once
// Lower bounds on time and memory of a choice. They come from recordings of models with one and two
// blocks of a type. Each recording is made once and reused for all choices to which it applies.
#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <tuple>

#include "lib/predict/choices.hpp"
#include "lib/predict/machine.hpp"

namespace trireme {

// Computes and caches the bounds. Keeps references to its constructor's arguments.
class SearchBounds {
 public:
  SearchBounds(const PlanInput&, const DryTarget&, const MachineModel&);

  double seconds(const RunChoice&);  // lower bound on the seconds of a step
  double bytes(const RunChoice&);    // lower bound on the bytes of a rank

 private:
  // Whether a block has one MLP or experts.
  enum BlockType : std::uint8_t { dense, mixture };
  static constexpr std::array block_types = {dense, mixture};
  using Count = std::array<std::int64_t, 2>;  // number of blocks of each type

  // Lower bounds for one block, for one micro-batch on one rank.
  struct Block {
    double forward = 0, backward = 0;  // seconds, including the exchanges that they wait for
    double rest = 0;                   // seconds of embedding and head, forward and backward pass
    double saved = 0;                  // bytes kept from the forward to the backward pass
    double both() const { return forward + backward; }
  };
  // Seconds of a block's messages on one communicator: once per step, and in addition per
  // micro-batch.
  struct Messages {
    double step = 0, microbatch = 0;
    double of(double microbatches) const { return step + microbatches * microbatch; }
  };
  // Messages that gather weights and reduce gradients. The first entry is for all weights except
  // distributed experts, the second for distributed experts.
  struct Shard {
    std::array<Messages, 2> gather, scatter;
  };
  // Number of weights in a block: all except distributed experts, and those of one expert.
  struct Parameters {
    double stage = 0, of_expert = 0;
  };
  // Seconds of all blocks on a stage.
  struct StageSums {
    double forward = 0, both = 0, gather = 0, scatter = 0;
  };

  // `stage` is the pipeline stage. Its ranks may be placed on nodes differently from those of the
  // first stage.
  const Block& block(const RunChoice&, int stage, BlockType);
  const Shard& shard(const RunChoice&, int stage, BlockType);
  StageSums sums(const RunChoice&, int stage);
  // Returns a lower bound on the bytes of a rank's state for these numbers of blocks.
  double state_bytes(const RunChoice&, const Count&) const;
  double gathered_bytes(const RunChoice&, const Count&, double bytes_each) const;
  // Returns the seconds of a queue from those of its two communicators.
  double on_queue(const std::array<double, 2>&) const;
  // Returns the number of ranks of earlier stages that are on the node where `stage` begins
  // (Placement::before). Returns 0 if groups of these sizes are placed on nodes in the same way on
  // all stages.
  int before(const RunChoice&, int stage, std::initializer_list<int> sizes) const;
  // Returns the number of blocks of each virtual stage.
  const std::vector<Count>& blocks(const Pipeline&);

  const PlanInput& input_;
  const DryTarget& target_;
  const MachineModel& machine_;
  std::array<Parameters, 2> parameters_;  // indexed by BlockType
  std::map<std::tuple<int, int, std::int64_t, Recompute, int, BlockType>, std::optional<Block>>
      blocks_;
  std::map<std::tuple<int, int, int, int, ZeroCadence, ZeroCadence, int, BlockType>, Shard> shards_;
  std::map<std::tuple<ScheduleKind, int, int>, std::vector<Count>> stages_;
};

}  // namespace trireme
