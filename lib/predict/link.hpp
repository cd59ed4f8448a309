#pragma once
// One direction of a network link in a simulation. Simultaneous transfers share the link evenly.
// Transfers are added one by one, and the end time of an added transfer never changes. If a new
// transfer takes bandwidth from an earlier one, the link stays busy for longer afterwards, so that
// the total amount of data is right.
#include <map>

namespace trireme {

// The times at which a link between ranks is busy with transfers.
class Link {
 public:
  // Adds a transfer that starts at time `from` and would take `seconds` on an idle link. Returns
  // the time at which the transfer ends.
  double add(double from, double seconds);

 private:
  void occupy(double begin, double end);
  void fill(double from, double seconds);

  std::map<double, double> busy_;  // end of each busy period, by its begin; periods do not touch
};

}  // namespace trireme
