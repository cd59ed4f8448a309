#pragma once
// A collective that a device transport performs itself, in place of messages.
#include <optional>

#include "lib/comm/engine/messages_in_flight.hpp"

namespace trireme::engine {

// The operands of an all-gather (`slice`, `gathered`) or a reduce-scatter (`summands`, `sum`). The
// others are absent. If all are absent, there is nothing to do.
struct NativeCollective {
  ConstView slice{};     // this rank's contribution
  View gathered{};       // the contributions of all ranks; `slice` may be this rank's part of it
  ConstView summands{};  // f32, one slice per rank
  View sum{};            // receives the sum over ranks of the slice for this rank
  Accumulate how = Accumulate::overwrite;

  explicit operator bool() const { return gathered || summands; }
};

// A native collective in flight.
class CollectiveInFlight {
 public:
  // Allocates a staging buffer if the sum is added to `sum`.
  CollectiveInFlight(const Route&, const NativeCollective&);

  // post() starts the collective and test() completes it. They return true if anything changed.
  bool post();
  bool test();
  bool complete() const { return complete_; }
  void release(Event e);

 private:
  Route route_;
  NativeCollective collective_;
  Tensor arriving_;
  std::optional<Transport::Request> request_;
  bool complete_;
};

}  // namespace trireme::engine
