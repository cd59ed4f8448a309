#pragma once
// What one rank writes of a model's state into a checkpoint, and a copy of it that stays as it is
// while training goes on.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/io/shard_file.hpp"
#include "lib/shard/store.hpp"

namespace trireme {

// Slices of weights and of the optimizer's arrays, and the parameter that each is of.
struct RankSlices {
  std::vector<ParamSlice> slices;
  std::vector<ParamId> params;
};

// What this rank reports of what a checkpoint has (is_saved). Frozen parameters may have no arrays.
RankSlices rank_slices(const Store&);

double bytes_of(const RankSlices&);

// The slices' elements from the store itself, read when write_shard asks for them. Both outlive it.
SliceSource elements_of(const Store&, const RankSlices&);

class Snapshot {
 public:
  // Takes pinned memory for a copy (Kind::snapshot), which is kept from one copy to the next and
  // taken anew where the next one is larger. Error when there is too little.
  void reserve(const Store&, const RankSlices&);
  // Copies all elements; reserves first.
  void take(const Store&, const RankSlices&);
  // For any thread, until the next take().
  SliceSource elements() const;

 private:
  Tensor copy_;
  std::map<std::pair<std::string, std::string>, std::int64_t> begins_;  // of (name, array)
};

}  // namespace trireme
