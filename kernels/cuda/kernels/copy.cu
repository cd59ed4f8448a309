// Copies with any strides on both sides, casts and sums; and fills. Neighbouring dims that both
// sides step through as one are one; where the last dim is dense on both sides it moves in packs.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/cuda/kernels/launch.cuh"

namespace trireme::cuda {
namespace {

// Without dims of one element and with those merged that both sides step through as one.
CopyShape collapsed(const CopyShape& s) {
  CopyShape c{};
  for (int d = 0; d < s.dims; ++d) {
    if (s.extent[d] == 1) continue;
    const int last = c.dims - 1;
    if (c.dims > 0 && c.to[last] == s.extent[d] * s.to[d] &&
        c.from[last] == s.extent[d] * s.from[d]) {
      c.extent[last] *= s.extent[d];
      c.to[last] = s.to[d];
      c.from[last] = s.from[d];
      continue;
    }
    c.extent[c.dims] = s.extent[d];
    c.to[c.dims] = s.to[d];
    c.from[c.dims] = s.from[d];
    ++c.dims;
  }
  if (c.dims == 0) c = {1, {1}, {1}, {1}};
  return c;
}

std::int64_t count(const CopyShape& s) {
  std::int64_t n = 1;
  for (int d = 0; d < s.dims; ++d) n *= s.extent[d];
  return n;
}

// Do packs of n elements neither cross a row's end nor begin anywhere but at a multiple of n?
bool in_packs(const CopyShape& s, int n) {
  const int last = s.dims - 1;
  if (s.to[last] != 1 || s.from[last] != 1 || s.extent[last] % n != 0) return false;
  for (int d = 0; d < last; ++d)
    if (s.to[d] % n != 0 || s.from[d] % n != 0) return false;
  return true;
}

struct Offsets {
  std::int64_t to, from;
};

__device__ Offsets offsets_of(const CopyShape& s, std::int64_t i) {
  Offsets o{0, 0};
#pragma unroll
  for (int d = CopyShape::most - 1; d >= 0; --d) {
    if (d >= s.dims) continue;
    const auto left = d == 0 ? 0 : i / s.extent[d], index = i - left * s.extent[d];
    o.to += index * s.to[d];
    o.from += index * s.from[d];
    i = left;
  }
  return o;
}

// The type that two elements are added in: the wider of theirs.
__device__ inline double wide_of(double x) {
  return x;
}
__device__ inline float wide_of(float x) {
  return x;
}
__device__ inline float wide_of(bf16 x) {
  return widen(x);
}
__device__ inline std::int64_t wide_of(std::int64_t x) {
  return x;
}
template <class T, class W>
__device__ T cast_to(W x) {
  if constexpr (sizeof(T) == 8)
    return static_cast<T>(x);
  else
    return rounded<T>(static_cast<float>(x));
}

template <class To, class From>
struct CopyEach {
  To* dst;
  const From* src;
  CopyShape shape;
  bool add;

  __device__ void operator()(std::int64_t i) const {
    const auto at = offsets_of(shape, i);
    if constexpr (std::is_same_v<To, From>)
      if (!add) {  // bit for bit
        dst[at.to] = src[at.from];
        return;
      }
    const auto x = wide_of(src[at.from]);
    dst[at.to] = cast_to<To>(add ? wide_of(dst[at.to]) + x : x);
  }
};

template <int N, class To, class From>
struct CopyPacks {
  To* dst;
  const From* src;
  CopyShape shape;  // in elements
  bool add;

  __device__ void operator()(std::int64_t i) const {
    const auto at = offsets_of(shape, i * N);
    if constexpr (std::is_same_v<To, From>)
      if (!add) {
        Pack<To, N>::load(src + at.from).store(dst + at.to);
        return;
      }
    auto x = load<N>(src + at.from);
    if (add) {
      const auto sum = load<N>(dst + at.to);
#pragma unroll
      for (int k = 0; k < N; ++k) x.v[k] += sum.v[k];
    }
    store<N>(dst + at.to, x);
  }
};

template <class T>
struct FillEach {
  T* dst;
  T value;
  CopyShape shape;
  __device__ void operator()(std::int64_t i) const { dst[offsets_of(shape, i).to] = value; }
};

template <class T>
struct FillPacks {
  T* dst;
  T value;
  __device__ void operator()(std::int64_t i) const {
    T values[pack_of<T>];
#pragma unroll
    for (auto& v : values) v = value;
    Pack<T, pack_of<T>>::of(values).store(dst + i * pack_of<T>);
  }
};

// Of the narrower type 16 bytes; so both sides' packs are whole accesses.
template <class To, class From>
inline constexpr int packed = pack_of<To> > pack_of<From> ? pack_of<To> : pack_of<From>;

}  // namespace

template <class To, class From>
void copy(Stream stream, To* dst, const From* src, const CopyShape& given, Accumulate how) {
  const auto shape = collapsed(given);
  const bool add = how == Accumulate::add;
  if constexpr (sizeof(To) < 8 && sizeof(From) < 8) {
    constexpr int N = packed<To, From>;
    if (in_packs(shape, N) && aligned(dst, src))
      return launch_each(stream, "copy", count(shape) / N,
                         CopyPacks<N, To, From>{dst, src, shape, add});
  }
  launch_each(stream, "copy", count(shape), CopyEach<To, From>{dst, src, shape, add});
}

template <class T>
void fill(Stream stream, T* dst, T value, const CopyShape& given) {
  const auto shape = collapsed(given);
  const auto n = count(shape);
  if (shape.dims == 1 && shape.to[0] == 1 && n % pack_of<T> == 0 && aligned(dst))
    return launch_each(stream, "fill", n / pack_of<T>, FillPacks<T>{dst, value});
  launch_each(stream, "fill", n, FillEach<T>{dst, value, shape});
}

template void copy(Stream, float*, const float*, const CopyShape&, Accumulate);
template void copy(Stream, float*, const bf16*, const CopyShape&, Accumulate);
template void copy(Stream, float*, const double*, const CopyShape&, Accumulate);
template void copy(Stream, bf16*, const float*, const CopyShape&, Accumulate);
template void copy(Stream, bf16*, const bf16*, const CopyShape&, Accumulate);
template void copy(Stream, bf16*, const double*, const CopyShape&, Accumulate);
template void copy(Stream, double*, const float*, const CopyShape&, Accumulate);
template void copy(Stream, double*, const bf16*, const CopyShape&, Accumulate);
template void copy(Stream, double*, const double*, const CopyShape&, Accumulate);
template void copy(Stream, std::int64_t*, const std::int64_t*, const CopyShape&, Accumulate);
template void fill(Stream, float*, float, const CopyShape&);
template void fill(Stream, bf16*, bf16, const CopyShape&);
template void fill(Stream, double*, double, const CopyShape&);
template void fill(Stream, std::int32_t*, std::int32_t, const CopyShape&);
template void fill(Stream, std::int64_t*, std::int64_t, const CopyShape&);

}  // namespace trireme::cuda
