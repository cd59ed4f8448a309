#include "lib/predict/link.hpp"

#include <algorithm>
#include <iterator>

namespace trireme {

double Link::take(double from, double seconds) {
  if (seconds <= 0) return from;
  auto next = busy_.upper_bound(from);
  double begin = from, now = from;
  if (next != busy_.begin()) {
    const auto before = std::prev(next);
    if (before->second >= from) {
      begin = before->first;
      now = before->second;
      busy_.erase(before);
    }
  }
  // Free time up to the next period, then that period, which joins this one.
  while (next != busy_.end() && next->first <= now + seconds) {
    seconds -= next->first - now;
    now = next->second;
    next = busy_.erase(next);
  }
  busy_[begin] = now + seconds;
  return now + seconds;
}

}  // namespace trireme
