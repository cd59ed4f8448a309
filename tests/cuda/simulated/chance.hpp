#pragma once
// What is left to chance on a simulated device. TRIREME_SIMULATED_SEED gives another course.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <random>

namespace trireme::simulated {

class Chance {
 public:
  std::size_t below(std::size_t n) { return n == 1 ? 0 : numbers_() % n; }
  bool of(double probability) { return static_cast<double>(numbers_()) < probability * 0x1p32; }
  template <class Range>
  void shuffle(Range& r) {
    for (std::size_t i = std::size(r); i > 1; --i) std::swap(r[i - 1], r[below(i)]);
  }

 private:
  static unsigned seed() {
    const char* given = std::getenv("TRIREME_SIMULATED_SEED");
    return given ? static_cast<unsigned>(std::atoi(given)) : 1;
  }
  std::mt19937 numbers_{seed()};
};

inline Chance& chance() {
  static Chance c;
  return c;
}

}  // namespace trireme::simulated
