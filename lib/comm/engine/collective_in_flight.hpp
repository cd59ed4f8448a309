#pragma once
// A collective that a device transport implements itself (native), without messages of this
// library.
#include <optional>

#include "lib/comm/engine/messages_in_flight.hpp"

namespace trireme::engine {

// Operands of a native collective: `slice` and `gathered` of an all-gather, or `summands` and `sum`
// of a reduce-scatter. The other operands are absent. If all are absent, the collective does
// nothing.
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
  // Allocates a staging buffer if the result is added to `sum` rather than written to it.
  CollectiveInFlight(const Route&, const NativeCollective&);

  // post() starts the collective, and test() checks for its completion. Both return true if
  // anything changed.
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
