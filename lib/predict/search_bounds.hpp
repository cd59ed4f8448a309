#pragma once
// What a choice takes at least, in time and memory, from recordings of models of one and of two
// blocks of a type. Each is made once for all choices that it serves.
#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <tuple>

#include "lib/predict/choices.hpp"
#include "lib/predict/machine.hpp"

namespace trireme {

class SearchBounds {
 public:
  SearchBounds(const PlanInput&, const DryTarget&, const MachineModel&);

  double seconds(const RunChoice&);  // of a step, at least
  double bytes(const RunChoice&);    // of a rank, at least

 private:
  // Blocks with one MLP, and with experts.
  enum BlockType : std::uint8_t { dense, mixture };
  static constexpr std::array block_types = {dense, mixture};
  using Count = std::array<std::int64_t, 2>;  // of each type

  // Of one microbatch on one rank.
  struct Block {
    double forward = 0, backward = 0;  // seconds, with the exchanges that they wait for
    double rest = 0;                   // of embedding and head, forward and backward
    double saved = 0;                  // bytes kept from forward to backward
    double both() const { return forward + backward; }
  };
  // Seconds of a block's messages on one communicator: a step's, and a microbatch's beside them.
  struct Messages {
    double step = 0, microbatch = 0;
    double of(double microbatches) const { return step + microbatches * microbatch; }
  };
  // Those of all weights but experts' that are spread over ranks, and those of these.
  struct Shard {
    std::array<Messages, 2> gather, scatter;
  };
  // Elements of a block: of all but spread experts, and of one expert.
  struct Parameters {
    double stage = 0, of_expert = 0;
  };
  // Of a stage.
  struct StageSums {
    double forward = 0, both = 0, gather = 0, scatter = 0;
  };

  // `stage`: of the pipeline, whose ranks may lie otherwise on nodes than those of the first.
  const Block& block(const RunChoice&, int stage, BlockType);
  const Shard& shard(const RunChoice&, int stage, BlockType);
  StageSums sums(const RunChoice&, int stage);
  // What of all blocks of these counts a rank's state takes at least.
  double state_bytes(const RunChoice&, const Count&) const;
  double gathered_bytes(const RunChoice&, const Count&, double bytes_each) const;
  // Seconds of a queue, from those of its communicators.
  double on_queue(const std::array<double, 2>&) const;
  // Placement::before of a stage, for groups of these sizes.
  int before(const RunChoice&, int stage, std::initializer_list<int> sizes) const;
  // Of each virtual stage.
  const std::vector<Count>& blocks(const Pipeline&);

  const PlanInput& input_;
  const DryTarget& target_;
  const MachineModel& machine_;
  std::array<Parameters, 2> parameters_;  // by BlockType
  std::map<std::tuple<int, int, std::int64_t, Recompute, int, BlockType>, std::optional<Block>>
      blocks_;
  std::map<std::tuple<int, int, int, int, ZeroCadence, ZeroCadence, int, BlockType>, Shard> shards_;
  std::map<std::tuple<ScheduleKind, int, int>, std::vector<Count>> stages_;
};

}  // namespace trireme
