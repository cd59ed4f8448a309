#pragma once
// One direction of a network link in a simulation. Simultaneous transfers share the link evenly.
// Transfers are added one by one, and the end of an added transfer never changes. If a transfer
// takes bandwidth from one that was added before, the link is busy for that much longer afterwards,
// so that the total is right.
#include <map>

namespace trireme {

// The periods in which a link is busy.
class Link {
 public:
  // Adds a transfer that starts at time `from` and would take `seconds` alone. Returns the time at
  // which it ends.
  double add(double from, double seconds);

 private:
  void occupy(double begin, double end);
  void fill(double from, double seconds);

  std::map<double, double> busy_;  // end of each busy period, by its begin; periods do not touch
};

}  // namespace trireme
