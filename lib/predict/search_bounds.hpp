#pragma once
// What a choice takes at least, in time and memory, from recordings of models of one and of two
// blocks. Each is made once for all choices that it serves.
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
  // Of one microbatch on one rank.
  struct Block {
    double forward = 0, backward = 0;  // seconds, with the exchanges that they wait for
    double rest = 0;                   // of embedding and head, forward and backward
    double saved = 0;                  // bytes kept from forward to backward
    double both() const { return forward + backward; }
  };
  // Seconds of a block's messages on a queue: a step's, and a microbatch's beside them.
  struct Messages {
    double step = 0, microbatch = 0;
    double of(double microbatches) const { return step + microbatches * microbatch; }
  };
  struct Shard {
    Messages gather, scatter;
  };
  const Block& block(const RunChoice&, int stage);
  const Shard& shard(const RunChoice&, int stage);
  // Placement::before of a stage.
  int before(const RunChoice&, int stage, int size) const;
  // Of each virtual stage.
  const std::vector<std::int64_t>& blocks(const Pipeline&);

  const PlanInput& input_;
  const DryTarget& target_;
  const MachineModel& machine_;
  double block_parameters_ = 0;
  std::map<std::tuple<int, std::int64_t, Recompute, int>, std::optional<Block>> blocks_;
  std::map<std::tuple<int, int, int, ZeroCadence, ZeroCadence, int>, Shard> shards_;
  std::map<std::tuple<ScheduleKind, int, int>, std::vector<std::int64_t>> stages_;
};

}  // namespace trireme
