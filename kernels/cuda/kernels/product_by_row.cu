// Matrix products with SumOrder::by_row, for generation. A warp computes a few columns of c for up
// to eight rows at a time. Each lane adds runs of eight consecutive terms, and the lanes' sums are
// added last. The order of the terms depends only on their number, so it is the same for every
// layout and for every number of rows. With few rows, the time is that of reading b once.
#include <algorithm>

#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/sums.cuh"
#include "kernels/cuda/kernels/views.hpp"

namespace trireme::cuda {
namespace {

constexpr int run_terms = 8;  // consecutive terms of a lane
constexpr int warp_columns = 2;
constexpr int block_columns = block_threads / warp * warp_columns;

// A matrix with any strides, in elements.
template <class T>
struct Matrix {
  T* data;
  std::int64_t row, column;
};
template <class T, class V>
Matrix<T> matrix(const V& v) {
  return {at<std::remove_const_t<T>>(v), v.stride[0], v.stride[1]};
}

template <class T, class C>
struct RowProduct {
  Matrix<C> c_MN;
  Matrix<const T> a_MK, b_KN;
  const T* bias_N;  // or null
  std::int64_t M, N, K;
  bool add;  // add to c instead of overwriting c
};

// Terms [k, k + 8) of a row or column. Terms from K on are 0.
template <bool whole, class T>
__device__ Floats<run_terms> terms(const T* x, std::int64_t stride, std::int64_t k,
                                   std::int64_t K) {
  if constexpr (whole) {
    return load<run_terms>(x + k);
  } else {
    Floats<run_terms> f;
#pragma unroll
    for (int i = 0; i < run_terms; ++i) f.v[i] = k + i < K ? widen(x[(k + i) * stride]) : 0.0F;
    return f;
  }
}

// Computes `rows` rows from row m on, for the columns of this warp.
template <int rows, bool whole, class T, class C>
__device__ void multiply(const RowProduct<T, C>& p, Matrix<const T> b_KN, std::int64_t m) {
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const auto n = static_cast<std::int64_t>(blockIdx.x) * block_columns +
                 static_cast<std::int64_t>(threadIdx.x / warp) * warp_columns;
  float sum[rows * warp_columns] = {};
  for (std::int64_t k = lane * run_terms; k < p.K; k += warp * run_terms) {
    Floats<run_terms> b[warp_columns];
#pragma unroll
    for (int c = 0; c < warp_columns; ++c)
      b[c] = terms<whole>(b_KN.data + min(n + c, p.N - 1) * b_KN.column, b_KN.row, k, p.K);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const auto a =
          terms<whole>(p.a_MK.data + min(m + r, p.M - 1) * p.a_MK.row, p.a_MK.column, k, p.K);
#pragma unroll
      for (int c = 0; c < warp_columns; ++c)
#pragma unroll
        for (int i = 0; i < run_terms; ++i)
          sum[r * warp_columns + c] = fmaf(a.v[i], b[c].v[i], sum[r * warp_columns + c]);
    }
  }
  warp_sums(sum);
#pragma unroll
  for (int r = 0; r < rows; ++r)
#pragma unroll
    for (int c = 0; c < warp_columns; ++c) {
      if (lane != r * warp_columns + c || m + r >= p.M || n + c >= p.N) continue;
      C* const to = p.c_MN.data + (m + r) * p.c_MN.row + (n + c) * p.c_MN.column;
      float x = sum[r * warp_columns + c];
      if (p.bias_N) x += widen(p.bias_N[n + c]);
      if (p.add) x += widen(*to);
      *to = rounded<C>(x);
    }
}

template <int rows, bool whole, class T, class C>
__global__ void __launch_bounds__(block_threads) product_rows(RowProduct<T, C> p) {
  multiply<rows, whole>(p, p.b_KN, static_cast<std::int64_t>(blockIdx.y) * rows);
}

// Experts whose matrices have the same strides. The parameters of a kernel hold their addresses.
constexpr int launch_experts = 256;
template <class T>
struct ExpertMatrices {
  const T* data[launch_experts];
  const std::int32_t* offset_E1;  // offset_E1[e] is the first row of expert e of this launch
  int count;
};

// Computes one row of c for each block along y. Skips rows whose expert belongs to another launch.
template <bool whole, class T, class C>
__global__ void __launch_bounds__(block_threads)
    expert_rows(RowProduct<T, C> p, ExpertMatrices<T> experts) {
  const std::int64_t r = blockIdx.y;
  if (r < experts.offset_E1[0] || r >= experts.offset_E1[experts.count]) return;
  int begin = 0, end = experts.count;  // the expert is in [begin, end)
  while (end - begin > 1) {
    const int middle = (begin + end) / 2;
    if (experts.offset_E1[middle] <= r)
      begin = middle;
    else
      end = middle;
  }
  multiply<1, whole>(p, Matrix<const T>{experts.data[begin], p.b_KN.row, p.b_KN.column}, r);
}

// Returns true if each run of terms is one aligned access: consecutive and in packs of 16 bytes.
bool in_runs(const ConstView& a_MK, const ConstView& b_KN) {
  const auto whole = [](const ConstView& v, std::size_t along, std::size_t across) {
    const auto pack = static_cast<std::int64_t>(16 / bytes_of(v.dtype));
    return aligned(v.data) && v.stride[along] == 1 &&
           (v.extent[across] == 1 || v.stride[across] % pack == 0);
  };
  return a_MK.extent[1] % run_terms == 0 && whole(a_MK, 1, 0) && whole(b_KN, 0, 1);
}

template <class T, class C>
RowProduct<T, C> product_of(const View& c_MN, const ConstView& a_MK, const ConstView& b_KN) {
  return {.c_MN = matrix<C>(c_MN),
          .a_MK = matrix<const T>(a_MK),
          .b_KN = matrix<const T>(b_KN),
          .bias_N = nullptr,
          .M = c_MN.extent[0],
          .N = c_MN.extent[1],
          .K = a_MK.extent[1],
          .add = false};
}

// Calls f with the C++ types of a and c: the compute type, and that type or f32.
template <class F>
void with_types(DType in, DType out, const F& f) {
  with_type(in, [&]<class T>(T) {
    if (out == in)
      f(T{}, T{});
    else
      f(T{}, float{});
  });
}

// Calls f with the number of rows of a pass and with `whole`. The number is the smallest of 1, 2, 4
// and 8 that suffices. It is at most 4 without `whole`, because 8 rows would need too many
// registers.
template <class F>
void with_rows(std::int64_t rows, bool whole, const F& f) {
  const auto either = [&](auto n) {
    if (whole) return f(n, std::true_type{});
    f(n, std::false_type{});
  };
  if (rows <= 1) return either(std::integral_constant<int, 1>{});
  if (rows <= 2) return either(std::integral_constant<int, 2>{});
  if (rows <= 4 || !whole) return either(std::integral_constant<int, 4>{});
  f(std::integral_constant<int, 8>{}, std::true_type{});
}

}  // namespace

void multiply_by_row(const kernel::Matmul& o, Stream stream) {
  if (o.c_MN.count() == 0) return;
  with_types(o.a_MK.dtype, o.c_MN.dtype, [&]<class T, class C>(T, C) {
    auto p = product_of<T, C>(o.c_MN, o.a_MK, o.b_KN);
    p.bias_N = at<T>(o.epilogue.bias_N);
    p.add = o.how == Accumulate::add;
    with_rows(p.M, in_runs(o.a_MK, o.b_KN), [&](auto rows, auto whole) {
      const dim3 grid(blocks_for(p.N, block_columns), blocks_for(p.M, rows, most_along_y));
      start(o.name.data(), product_rows<rows.value, whole.value, T, C>, grid, block_threads, 0,
            stream, p);
    });
  });
}

void multiply_by_row(const kernel::GroupedMatmul& o, Stream stream) {
  if (o.c_RN.count() == 0) return;
  const auto& b = o.b_KN;
  with_types(o.a_RK.dtype, o.c_RN.dtype, [&]<class T, class C>(T, C) {
    for (std::size_t first = 0; first < b.size();) {
      ExpertMatrices<T> experts{{}, at<std::int32_t>(o.offset_E1) + first, 0};
      bool whole = true;
      auto e = first;
      for (; e < b.size() && experts.count < launch_experts && b[e].stride == b[first].stride;
           ++e) {
        experts.data[experts.count++] = at<T>(b[e]);
        whole = whole && in_runs(o.a_RK, b[e]);
      }
      const auto p = product_of<T, C>(o.c_RN, o.a_RK, b[first]);
      const dim3 grid(blocks_for(p.N, block_columns), blocks_for(p.M, 1, most_along_y));
      const auto kernel = whole ? expert_rows<true, T, C> : expert_rows<false, T, C>;
      start(o.name.data(), kernel, grid, block_threads, 0, stream, p, experts);
      first = e;
    }
  });
}

}  // namespace trireme::cuda
