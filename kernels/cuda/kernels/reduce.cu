// Column sums in two steps. The first adds the rows of parts of a fixed size. The second adds the
// partial sums in order.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/sums.cuh"
#include "kernels/cuda/kernels/views.hpp"

namespace trireme::cuda {
namespace {

constexpr std::int64_t part_rows = 256;

// Destinations of the sums. The grid's z counts the arrays of x_ZTC, of which there are one or two.
struct Columns {
  float *first, *second;  // either may be null
  bool add;
};

// Adds the rows of one part, for warp * N columns in each block. The block's warps, called strips,
// take the rows in turn. There may be more parts than a grid allows along y, so x counts the
// columns of the first part, then those of the second part and so on.
template <int strips, int N, class T>
__global__ void __launch_bounds__(warp* strips)
    column_parts(Columns to, const T* x_ZTC, std::int64_t rows, std::int64_t width,
                 std::int64_t part) {
  float* const out_PC = blockIdx.z == 0 ? to.first : to.second;
  if (out_PC == nullptr) return;
  const T* const x_TC = x_ZTC + blockIdx.z * rows * width;
  __shared__ Floats<N> of_strip[strips][warp];
  const int lane = static_cast<int>(threadIdx.x) % warp,
            strip = static_cast<int>(threadIdx.x) / warp;
  const auto columns = (width + warp * N - 1) / (warp * N), number = blockIdx.x / columns;
  const auto c = (blockIdx.x % columns * warp + lane) * N;
  const auto begin = number * part, end = min(rows, begin + part);
  Floats<N> sum{};
  if (c < width)
    for (auto t = begin + strip; t < end; t += strips) {
      const auto x = load<N>(x_TC + t * width + c);
#pragma unroll
      for (int k = 0; k < N; ++k) sum.v[k] += x.v[k];
    }
  of_strip[strip][lane] = sum;
  __syncthreads();
  if (strip != 0 || c >= width) return;
  float* const out = out_PC + number * width + c;
  if (to.add)
    sum = load<N>(out);
  else
    sum = {};
#pragma unroll
  for (int s = 0; s < strips; ++s)
#pragma unroll
    for (int k = 0; k < N; ++k) sum.v[k] += of_strip[s][lane].v[k];
  store<N>(out, sum);
}

// Launches column_parts for parts of `part` rows each. With several parts, `how` must be overwrite.
template <class T>
void launch_parts(Stream stream, const char* name, float* out_PC, Accumulate how, const T* x_TC,
                  std::int64_t rows, std::int64_t width, std::int64_t part) {
  const bool whole = width % pack_of<T> == 0 && aligned(out_PC, x_TC);
  with_packs<pack_of<T>>(whole, [&](auto packs) {
    constexpr int N = decltype(packs)::value, strips = 8;
    const auto parts = std::max(1U, blocks_for(rows, part));
    const auto blocks = blocks_for(std::int64_t{blocks_for(width, warp * N)} * parts, 1);
    start(name, column_parts<strips, N, T>, blocks, warp * strips, 0, stream,
          Columns{out_PC, nullptr, how == Accumulate::add}, x_TC, rows, width, part);
  });
}

__global__ void __launch_bounds__(block_threads)
    add_in_order(double* out, bool add, const double* x, std::int64_t n) {
  double sum = 0;
#pragma unroll 8
  for (std::int64_t i = threadIdx.x; i < n; i += block_threads) sum += x[i];
  sum = block_sum<block_threads>(sum);
  if (threadIdx.x == 0) *out = add ? *out + sum : sum;
}

}  // namespace

// The numbers are few and most are in the cache. Narrow columns and many strips keep many loads in
// flight.
void add_partials(Stream stream, float* a_C, float* b_C, Accumulate how, const float* partial_2PC,
                  std::int64_t parts, std::int64_t width) {
  constexpr int strips = 16;
  const dim3 grid(blocks_for(width, warp), 1, b_C == nullptr ? 1 : 2);
  start("add_partials", column_parts<strips, 1, float>, grid, warp * strips, 0, stream,
        Columns{a_C, b_C, how == Accumulate::add}, partial_2PC, parts, width, parts);
}

void run(const kernel::ColumnSum& o, const OnStream& on) {
  const auto rows = o.x_TC.extent[0], width = o.x_TC.extent[1];
  const std::int64_t parts = rows <= part_rows ? 0 : blocks_for(rows, part_rows);
  auto* const partials =
      scratch<float>(o, on, static_cast<std::size_t>(parts * width) * sizeof(float));
  auto* const out = at<float>(o.out_C);
  with_type(o.x_TC.dtype, [&]<class T>(T) {
    launch_parts(on.stream, "column_sum", parts == 0 ? out : partials,
                 parts == 0 ? o.how : Accumulate::overwrite, at<T>(o.x_TC), rows, width, part_rows);
  });
  if (parts > 0) add_partials(on.stream, out, nullptr, o.how, partials, parts, width);
}

void sum_in_order(Stream stream, double* out, Accumulate how, const double* x, std::int64_t n) {
  start("sum_in_order", add_in_order, 1, block_threads, 0, stream, out, how == Accumulate::add, x,
        n);
}

}  // namespace trireme::cuda
