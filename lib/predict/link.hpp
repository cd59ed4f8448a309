#pragma once
// One direction of a link, which transfers share evenly while they are on it at the same time. They
// are added one after the other, and the end of one that was added is known from then on: what a
// later one takes from it is made up for by those that follow.
#include <map>

namespace trireme {

class Link {
 public:
  // Adds a transfer that begins then and takes so many seconds alone; its end.
  double add(double from, double seconds);

 private:
  void occupy(double begin, double end);
  void fill(double from, double seconds);

  std::map<double, double> busy_;  // end of each period, by its begin; none touch
};

}  // namespace trireme
