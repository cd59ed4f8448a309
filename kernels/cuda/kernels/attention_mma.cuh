#pragma once
// Attention on tensor cores. Blocks load tiles of bf16 rows into shared memory. Each warp
// multiplies 16 rows at a time and holds its 16 x N scores as N / 8 Sums.
#include "kernels/cuda/attention_state.hpp"
#include "kernels/cuda/kernels/attention_tile.cuh"
#include "kernels/cuda/kernels/mma.cuh"
#include "kernels/cuda/kernels/special.cuh"

namespace trireme::cuda {

inline constexpr float log2_e = 1.44269504F, ln_2 = 0.693147181F;

// Rows that one warp computes.
inline constexpr int mma_rows = 16;
// Shared memory of a block that every processor since 8.0 has.
inline constexpr std::size_t most_shared_bytes = std::size_t{99} << 10;

// Tile of rows with D elements each in shared memory. Elements beyond the head dim are zeros.
// Padding of 16 bytes between rows puts the 8 rows that a warp reads together into different memory
// banks.
template <int D>
struct Tile {
  static constexpr int stride = D + 8;
  SharedAddress begin;

  __device__ SharedAddress row(int r) const { return begin + r * stride; }
  // Returns the offset that this lane adds to the address of a load.
  __device__ SharedAddress lanes(int r, int element) const {
    return begin + (r * stride + element);
  }
  // Returns rows [first, first + 16) and elements [k, k + 16) as a left operand.
  __device__ LeftOperand left(int first, int k) const {
    LeftOperand a;
    load_matrices(a.w, lanes(lane_of() % 16, lane_of() / 16 * 8) + (first * stride + k));
    return a;
  }
  // Loads two right operands. Their columns are the tile's rows [first, first + 16), restricted to
  // elements [k, k + 16).
  __device__ void columns(unsigned (&w)[4], int first, int k) const {
    load_matrices(
        w, lanes(lane_of() / 16 * 8 + lane_of() % 8, lane_of() / 8 % 2 * 8) + (first * stride + k));
  }
  // Loads two right operands. Their rows are the tile's rows [first, first + 16), restricted to
  // elements [d, d + 16).
  __device__ void rows(unsigned (&w)[4], int first, int d) const {
    load_transposed(
        w, lanes(lane_of() / 8 % 2 * 8 + lane_of() % 8, lane_of() / 16 * 8) + (first * stride + d));
  }
};
template <int D>
constexpr std::size_t tile_bytes_of(int rows) {
  return static_cast<std::size_t>(rows * Tile<D>::stride) * sizeof(bf16);
}

// Starts an asynchronous copy of rows [first, first + Rows) of head h to a tile. Rows beyond the
// last token and elements beyond the last dim become zeros.
template <int Threads, int Rows, int D>
__device__ void start_rows(const Tile<D>& to, const Heads<const bf16>& x, std::int64_t b,
                           std::int64_t h, int first, std::int64_t tokens, std::int64_t dim) {
  constexpr int pieces = D / 8, rows_at_once = Threads / pieces;
  const int r = static_cast<int>(threadIdx.x) / pieces,
            d = static_cast<int>(threadIdx.x) % pieces * 8;
  const int rows = d < dim ? min(static_cast<int>(tokens) - first, Rows) : 0;
  const bf16* from = row_of(x, b, first + r, h) + d;
  const auto step = rows_at_once * x.token;
#pragma unroll
  for (int i = 0; i < Rows; i += rows_at_once, from += step)
    start_copy(to.row(r + i) + d, r + i < rows ? from : x.data, r + i < rows);
}

__device__ inline unsigned bf16_pair(float first, float second) {
  const auto pair = __floats2bfloat162_rn(first, second);
  unsigned word;
  memcpy(&word, &pair, sizeof word);
  return word;
}
// Rounds two 16 x 8 sums to bf16 and returns them as a left operand.
__device__ inline LeftOperand left_operand(const Sums& a, const Sums& b) {
  return {{bf16_pair(a.v[0], a.v[1]), bf16_pair(a.v[2], a.v[3]), bf16_pair(b.v[0], b.v[1]),
           bf16_pair(b.v[2], b.v[3])}};
}

// Adds the products of M x 16 rows with N rows of a tile. left(m, k) returns elements [16 k, 16 k +
// 16) of the m-th 16 rows.
template <int M, int N, int D, class Left>
__device__ void add_scores(Sums (&scores)[M][N / 8], const Left& left, const Tile<D>& tile) {
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    LeftOperand a[M];
#pragma unroll
    for (int m = 0; m < M; ++m) a[m] = left(m, k);
#pragma unroll
    for (int n = 0; n < N / 16; ++n) {
      unsigned b[4];
      tile.columns(b, 16 * n, 16 * k);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        add_product(scores[m][2 * n], a[m], b[0], b[1]);
        add_product(scores[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// Adds weighted sums of the tile's N rows to each of M x 16 rows. The weights are rounded to bf16.
template <int M, int N, int D>
__device__ void add_weighted(Sums (&sums)[M][D / 8], const Sums (&weights)[M][N / 8],
                             const Tile<D>& tile) {
#pragma unroll
  for (int k = 0; k < N / 16; ++k) {
    LeftOperand a[M];
#pragma unroll
    for (int m = 0; m < M; ++m) a[m] = left_operand(weights[m][2 * k], weights[m][2 * k + 1]);
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      unsigned b[4];
      tile.rows(b, 16 * k, 16 * d);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        add_product(sums[m][2 * d], a[m], b[0], b[1]);
        add_product(sums[m][2 * d + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// Return the position of this lane's sums in a 16 x 8 tile: its row (0 to 15) and the first of its
// two columns. v[0] and v[1] are in row lane_row(), and v[2] and v[3] are 8 rows below.
__device__ inline int lane_row() {
  return lane_of() / 4;
}
__device__ inline int lane_column() {
  return lane_of() % 4 * 2;
}

// A range of a call's keys or queries. mma_takes() limits their number to 2^28, so int suffices.
struct Span {
  int begin, end;
  __device__ bool has(int i) const { return begin <= i && i < end; }
};
__device__ inline Span span_of(const Range& r) {
  return {static_cast<int>(r.begin), static_cast<int>(r.end)};
}

// Keys that at least one query of a group attends to, and keys that every query of the group
// attends to.
struct SeenByRows {
  Span any, every;
  __device__ bool some(int tile, int rows) const {
    return tile < any.end && any.begin < tile + rows;
  }
  __device__ bool all(int tile, int rows) const {
    return every.begin <= tile && tile + rows <= every.end;
  }
};
// Returns the keys of queries [first, last]. Both ranges are empty if there are no queries.
__device__ inline SeenByRows keys_of_rows(const AttentionInputs<bf16>& a, std::int64_t b, int first,
                                          int last) {
  if (first > last) return {{0, 0}, {0, 0}};
  const auto earliest = span_of(keys_of(a, b, first)), latest = span_of(keys_of(a, b, last));
  return {{earliest.begin, latest.end}, {latest.begin, earliest.end}};
}

// Calls use(tile, stage) for tile = begin, begin + step and so on below `end`. Meanwhile load(tile,
// stage) loads the next tile into the other of two buffers (stages).
template <class Load, class Use>
__device__ void for_each_tile(int begin, int end, int step, const Load& load, const Use& use) {
  if (begin < end) load(begin, 0);
  end_copies();
  int stage = 0;
  for (int tile = begin; tile < end; tile += step, stage ^= 1) {
    wait_for_copies<0>();
    __syncthreads();  // this tile is loaded, and all threads have read the last one
    if (tile + step < end) load(tile + step, stage ^ 1);
    end_copies();
    use(tile, stage);
  }
  wait_for_copies<0>();
}

// Return the sum and the maximum over the 4 lanes that hold one row.
__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 2));
}

// Calls f(std::integral_constant<int, D>), where D is the tile width for heads with `dim` elements.
template <class F>
void with_tile_width(std::int64_t dim, const F& f) {
  if (dim <= 64) return f(std::integral_constant<int, 64>{});
  f(std::integral_constant<int, 128>{});
}

}  // namespace trireme::cuda
