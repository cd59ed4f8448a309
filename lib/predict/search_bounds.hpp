#pragma once
// What a choice takes at least, in time and memory, from recordings of models of one and of two
// blocks. Each is made once for all choices that it serves.
#include <map>
#include <tuple>

#include "lib/predict/search.hpp"

namespace trireme {

class SearchBounds {
 public:
  SearchBounds(const PlanInput&, const DryTarget&, const Machine&);

  double seconds(const Choice&);  // of a step, at least
  double bytes(const Choice&);    // of a rank, at least

 private:
  // Of one microbatch on one rank.
  struct Block {
    double forward = 0, backward = 0;  // seconds of computing
    double saved = 0;                  // bytes kept from forward to backward
  };
  // Seconds of a block's messages on the queue that has most: a step's, and a microbatch's.
  struct Shard {
    double step = 0, microbatch = 0;
  };
  const Block& block(const Choice&);
  const Shard& shard(const Choice&);
  std::vector<std::int64_t> blocks(int stages) const;

  const PlanInput& input_;
  const DryTarget& target_;
  const Machine& machine_;
  double block_parameters_ = 0;
  std::map<std::tuple<int, std::int64_t, Recompute>, Block> blocks_;
  std::map<std::tuple<int, int, int, ZeroCadence, ZeroCadence>, Shard> shards_;
};

// The input as a choice has it.
PlanInput input_of(const PlanInput&, const Choice&);

}  // namespace trireme
