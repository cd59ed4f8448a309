#pragma once
// cub::DeviceRadixSort::SortPairs of a simulated device.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "tests/cuda/simulated/streams.hpp"

namespace cub {

struct DeviceRadixSort {
  // By the bits [first, last) of the keys, stably. Without scratch: says how much it needs.
  template <class Key, class Value>
  static cudaError_t SortPairs(void* scratch, std::size_t& bytes, const Key* keys, Key* sorted_keys,
                               const Value* values, Value* sorted_values, int n, int first = 0,
                               int last = static_cast<int>(sizeof(Key)) * 8,
                               cudaStream_t stream = nullptr) {
    const auto needed = 1024 + static_cast<std::size_t>(n);
    if (!scratch) {
      bytes = needed;
      return cudaSuccess;
    }
    if (bytes < needed) return cudaErrorInvalidValue;
    return trireme::simulated::put(stream, "sort", [=] {
      std::fill_n(static_cast<unsigned char*>(scratch), bytes, 0xffU);
      const auto digits = [&](int i) {
        const auto bits = static_cast<unsigned long long>(keys[i]) >> first;
        return bits & ((1ULL << (last - first)) - 1);
      };
      std::vector<int> order(static_cast<std::size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, {}, digits);
      for (std::size_t i = 0; i < order.size(); ++i) {
        sorted_keys[i] = keys[order[i]];
        sorted_values[i] = values[order[i]];
      }
    });
  }
};

}  // namespace cub
