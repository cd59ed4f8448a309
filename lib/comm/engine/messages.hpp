#pragma once
// Collectives as lists of messages between pairs of ranks. The functions are pure. Each message has
// at most `chunk` elements of one View. A rank posts its messages in list order. The sender and the
// receiver of a message use the same global order, so the earliest incomplete message is the first
// incomplete one in both lists. Therefore no deadlock is possible, however few messages may be in
// flight.
#include <span>
#include <vector>

#include "lib/base/view.hpp"

namespace trireme::engine {

// A message to or from another rank. `view` is dense and one-dimensional.
struct Outgoing {
  int peer;
  ConstView view;
};
struct Incoming {
  int peer;
  View view;
};
// The messages of one operation, in the order in which this rank posts them.
struct Messages {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
};

// Returns slice `rank` of a dense view that is divided into `size` equal slices.
View slice_of(const View&, int rank, int size);
ConstView slice_of(const ConstView&, int rank, int size);

// Returns the messages of an all-gather. In iteration k, a rank sends to rank+k and receives from
// rank-k.
Messages gather_messages(int rank, int size, const View& dst, const ConstView& src,
                         std::int64_t chunk);
// Returns the messages of a reduce-scatter. In iteration k, a rank sends to rank-k and receives
// from rank+k, so contributions arrive in the order rank+1, rank+2, ...
Messages scatter_messages(int rank, int size, const View& dst, const ConstView& src,
                          std::int64_t chunk);
// Returns the messages of an all-to-all in the order of an all-gather. Skips absent views and this
// rank's own views.
Messages exchange_messages(int rank, std::span<const View> dst, std::span<const ConstView> src,
                           std::int64_t chunk);
Messages send_messages(int to, const ConstView&, std::int64_t chunk);
Messages receive_messages(int from, const View&, std::int64_t chunk);

}  // namespace trireme::engine
