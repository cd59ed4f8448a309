#pragma once
// One direction of a link, which transfers share: what one takes of its time, others do not have.
#include <map>

namespace trireme {

class Link {
 public:
  // Takes the first free `seconds` from `from` on; when they have passed. Those that ask earlier
  // go first.
  double take(double from, double seconds);

 private:
  std::map<double, double> busy_;  // end of each period, by its begin; none touch
};

}  // namespace trireme
