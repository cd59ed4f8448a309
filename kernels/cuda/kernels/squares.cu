// Sums of squares of many arrays together, most of them small. The first kernel sums parts of
// a fixed size, and the second adds the parts of each array in order.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/parts.cuh"
#include "kernels/cuda/kernels/sums.cuh"
#include "kernels/cuda/kernels/views.hpp"

namespace trireme::cuda {
namespace {

constexpr std::int64_t part_size = 1 << 13;
constexpr int most = 64;

template <class T>
struct Array {
  const T* data;
  std::int64_t count;
};
template <class T>
using Arrays = Parts<Array<T>, most, part_size>;

__device__ inline double square(float x) {
  return static_cast<double>(x) * static_cast<double>(x);
}

template <class T>
__global__ void __launch_bounds__(block_threads) square_parts(double* out_P, Arrays<T> arrays) {
  constexpr int N = pack_of<T>;
  const auto [i, begin, end] = arrays.of_block();
  const T* const x = arrays.array[i].data;
  double sum = 0;
  if (aligned(x) && end - begin == part_size) {
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
  if (threadIdx.x == 0) out_P[blockIdx.x] = sum;
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

void run(const kernel::SumSquares& o, const OnStream& on) {
  if (o.x.empty()) return;
  std::size_t parts = 0;
  for (const auto& v : o.x) parts += blocks_for(v.count(), part_size);
  auto* const of_parts = scratch<double>(o, on, parts * sizeof(double));
  with_type(o.x[0].dtype, [&]<class T>(T) {
    std::vector<Array<T>> all;
    for (const auto& v : o.x) all.push_back({at<T>(v), v.count()});
    in_parts<most, part_size>(all, [&](const Arrays<T>& arrays, std::size_t begin) {
      if (arrays.blocks() > 0)
        start("sum_squares", square_parts<T>, arrays.blocks(), block_threads, 0, on.stream,
              of_parts, arrays);
      start("sum_squares", add_parts<T>, static_cast<unsigned>(arrays.arrays), block_threads, 0,
            on.stream, at<double>(o.out_N) + begin, of_parts, arrays);
    });
  });
}

}  // namespace trireme::cuda
