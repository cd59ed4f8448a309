#pragma once
// Numbers for tests: reproducible, uniform, free of patterns.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/rng.hpp"

namespace trireme {

// n values in [-amplitude, amplitude).
inline std::vector<double> random_values(std::int64_t n, std::uint64_t seed, double amplitude = 1) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::uint64_t i = 0;
  for (double& x : values) {
    const auto bits = hash64(seed, i++) >> 11;
    x = amplitude * (static_cast<double>(bits) * 0x1p-52 - 1);
  }
  return values;
}

}  // namespace trireme
