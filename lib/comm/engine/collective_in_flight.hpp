#pragma once
// A collective that a device transport provides natively, in place of messages.
#include <optional>

#include "lib/comm/engine/messages_in_flight.hpp"

namespace trireme::engine {

// Absent views: nothing to do.
struct NativeCollective {
  ConstView slice{};     // of this rank, for
  View gathered{};       // the slices of all; its own place there may be `slice`
  ConstView summands{};  // f32, a slice for each rank
  View sum{};            // += or = the sum over ranks of their slice for this one
  Accumulate how = Accumulate::overwrite;

  explicit operator bool() const { return gathered || summands; }
};

class CollectiveInFlight {
 public:
  // Takes a buffer for a sum that is added.
  CollectiveInFlight(const Route&, const NativeCollective&);

  // True: something changed.
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
