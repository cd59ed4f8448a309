// Sums of squares of many arrays at a time, most of them small: partial sums over parts of a fixed
// size, then of each array its parts in order.
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/sums.cuh"

namespace trireme::cuda {
namespace {

constexpr std::int64_t part_size = 1 << 13;

// As many arrays as a launch tells its kernel of; parts [first[i], first[i + 1]) are of array i.
template <class T>
struct Arrays {
  static constexpr int most = 64;
  Array<T> array[most];
  int first[most + 1];
  int count;

  __device__ int of_part(int part) const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (first[middle] <= part)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }
};

__device__ inline double square(float x) {
  return static_cast<double>(x) * static_cast<double>(x);
}

template <class T>
__global__ void __launch_bounds__(block_threads) square_parts(double* out_P, Arrays<T> arrays) {
  constexpr int N = pack_of<T>;
  const int part = static_cast<int>(blockIdx.x), i = arrays.of_part(part);
  const auto [x, n] = arrays.array[i];
  const auto begin = (part - arrays.first[i]) * part_size, end = min(n, begin + part_size);
  const bool aligned = reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
  double sum = 0;
  if (aligned && end - begin == part_size) {
#pragma unroll 4
    for (auto at = begin + threadIdx.x * N; at < end; at += block_threads * N) {
      const auto v = load<N>(x + at);
#pragma unroll
      for (int k = 0; k < N; ++k) sum += square(v.v[k]);
    }
  } else {
    for (auto at = begin + threadIdx.x; at < end; at += block_threads) sum += square(widen(x[at]));
  }
  sum = block_sum<block_threads>(sum);
  if (threadIdx.x == 0) out_P[part] = sum;
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    add_parts(double* out_N, const double* x_P, Arrays<T> arrays) {
  const auto i = blockIdx.x;
  double sum = 0;
#pragma unroll 4
  for (int part = arrays.first[i] + static_cast<int>(threadIdx.x); part < arrays.first[i + 1];
       part += block_threads)
    sum += x_P[part];
  sum = block_sum<block_threads>(sum);
  if (threadIdx.x == 0) out_N[i] = sum;
}

}  // namespace

std::size_t square_scratch(std::int64_t n) {
  return static_cast<std::size_t>(blocks_for(n, part_size)) * sizeof(double);
}

template <class T>
void sum_squares(Stream stream, double* out_N, std::span<const Array<T>> all, double* scratch) {
  while (!all.empty()) {
    Arrays<T> arrays{};
    arrays.count = static_cast<int>(std::min<std::size_t>(all.size(), Arrays<T>::most));
    for (int i = 0; i < arrays.count; ++i) {
      arrays.array[i] = all[static_cast<std::size_t>(i)];
      arrays.first[i + 1] =
          arrays.first[i] + static_cast<int>(blocks_for(arrays.array[i].count, part_size));
    }
    const auto parts = static_cast<unsigned>(arrays.first[arrays.count]);
    if (parts > 0)
      start("sum_squares", square_parts<T>, parts, block_threads, 0, stream, scratch, arrays);
    start("sum_squares", add_parts<T>, static_cast<unsigned>(arrays.count), block_threads, 0,
          stream, out_N, scratch, arrays);
    all = all.subspan(static_cast<std::size_t>(arrays.count));
    out_N += arrays.count;
  }
}

template void sum_squares(Stream, double*, std::span<const Array<float>>, double*);
template void sum_squares(Stream, double*, std::span<const Array<bf16>>, double*);

}  // namespace trireme::cuda
