#include "lib/predict/link.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace trireme {

double Link::add(double from, double seconds) {
  if (seconds <= 0) return from;
  double now = from, taken = 0;
  auto period = busy_.upper_bound(from);
  if (period != busy_.begin() && std::prev(period)->second > from) --period;
  while (seconds > 0) {
    if (period == busy_.end()) {
      now += std::exchange(seconds, 0);
    } else if (now < period->first) {
      const double alone = std::min(seconds, period->first - now);
      now += alone;
      seconds -= alone;
    } else {
      const double shared = std::min(seconds, (period->second - now) / 2);
      now = shared < seconds ? period->second : now + 2 * shared;
      seconds -= shared;
      taken += shared;
      ++period;
    }
  }
  occupy(from, now);
  fill(now, taken);
  return now;
}

void Link::occupy(double begin, double end) {
  auto next = busy_.lower_bound(begin);
  if (next != busy_.begin() && std::prev(next)->second >= begin) --next;
  while (next != busy_.end() && next->first <= end) {
    begin = std::min(begin, next->first);
    end = std::max(end, next->second);
    next = busy_.erase(next);
  }
  busy_[begin] = end;
}

// Occupies the first free time from `from` on.
void Link::fill(double from, double seconds) {
  auto period = busy_.upper_bound(from);
  if (period != busy_.begin()) --period;  // the period that begins before `from`
  double end = std::max(from, period->second) + seconds;
  for (++period; period != busy_.end() && period->first <= end; ++period)
    end += period->second - period->first;
  occupy(from, end);
}

}  // namespace trireme
