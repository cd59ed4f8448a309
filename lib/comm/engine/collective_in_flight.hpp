#pragma once
// A collective that a wire between GPUs does as a whole.
#include <optional>

#include "lib/comm/lane.hpp"

namespace trireme {

// Absent views: nothing to do.
struct Whole {
  View gathered{};       // its part of this rank goes to all others
  ConstView summands{};  // f32, a part for each rank
  View sum{};            // += or = the sum over ranks of their part for this one
  Accumulate how = Accumulate::overwrite;

  explicit operator bool() const { return gathered || summands; }
};

class WholeLane {
 public:
  // Takes room for a sum that is added.
  WholeLane(const Route&, const Whole&);

  bool post();
  bool land();
  bool finished() const { return finished_; }
  void release(Event e);

 private:
  Route route_;
  Whole whole_;
  Tensor arriving_;
  std::optional<Wire::Request> request_;
  bool finished_;
};

}  // namespace trireme
