#pragma once
// Collectives as lists of messages between two ranks, each at most `chunk` elements of one View:
// pure functions of rank and size. A rank posts in the order of its lists, which is the same on
// both sides of every message. So the earliest incomplete message is first in both its lists, and
// nothing deadlocks however few messages are outstanding.
#include <span>
#include <vector>

#include "lib/base/view.hpp"

namespace trireme::engine {

// `view` is dense and has one dim.
struct Outgoing {
  int peer;
  ConstView view;
};
struct Incoming {
  int peer;
  View view;
};
struct Messages {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
};

// Slice `rank` of `size` equal slices of a dense view.
View slice_of(const View&, int rank, int size);
ConstView slice_of(const ConstView&, int rank, int size);

// In round k to rank+k and from rank-k.
Messages gather_messages(int rank, int size, const View& dst, const ConstView& src,
                         std::int64_t chunk);
// In round k to rank-k and from rank+k, so contributions arrive in the order rank+1, rank+2, ...
Messages scatter_messages(int rank, int size, const View& dst, const ConstView& src,
                          std::int64_t chunk);
// As gather, with an own view for each rank; absent and own ones are left out.
Messages exchange_messages(int rank, std::span<const View> dst, std::span<const ConstView> src,
                           std::int64_t chunk);
Messages send_messages(int to, const ConstView&, std::int64_t chunk);
Messages receive_messages(int from, const View&, std::int64_t chunk);

}  // namespace trireme::engine
