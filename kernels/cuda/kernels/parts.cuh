#pragma once
// Launch of one kernel for many arrays of different lengths, most of them small. Arrays are divided
// into parts of a fixed size, and each thread block processes one part of one array.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cuda/kernels/launch.cuh"

namespace trireme::cuda {

// Arrays of one launch, passed by value. Parts [first[i], first[i + 1]) belong to array i, which
// has `count` elements. Kernel arguments are limited to 4 KiB.
template <class A, int most, std::int64_t size>
struct Parts {
  A array[most];
  int first[most + 1];
  int arrays;

  // An array, and the range of elements that a thread block processes.
  struct Place {
    int array;
    std::int64_t begin, end;
  };
  __device__ Place of_block() const {
    const int part = static_cast<int>(blockIdx.x);
    int low = 0, high = arrays - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (first[middle] <= part)
        low = middle;
      else
        high = middle - 1;
    }
    const auto begin = (part - first[low]) * size;
    return {low, begin, std::min(array[low].count, begin + size)};
  }

  unsigned blocks() const { return static_cast<unsigned>(first[arrays]); }
};

// Calls launch(parts, index of the first array) repeatedly until the launches cover all arrays.
template <int most, std::int64_t size, class A, class Launch>
void in_parts(const std::vector<A>& all, const Launch& launch) {
  static_assert(sizeof(Parts<A, most, size>) < 4096);
  for (std::size_t begin = 0; begin < all.size(); begin += most) {
    Parts<A, most, size> parts{};
    parts.arrays = static_cast<int>(std::min<std::size_t>(all.size() - begin, most));
    for (int i = 0; i < parts.arrays; ++i) {
      parts.array[i] = all[begin + static_cast<std::size_t>(i)];
      const auto end = std::int64_t{parts.first[i]} + blocks_for(parts.array[i].count, size);
      parts.first[i + 1] = static_cast<int>(blocks_for(end, 1));
    }
    launch(parts, begin);
  }
}

}  // namespace trireme::cuda
