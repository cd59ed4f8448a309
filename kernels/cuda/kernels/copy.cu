// Copies with any strides on both sides, with casts and sums, and fills. Adjacent dims that both
// views can traverse as one dim are merged. If the last dim is dense in both views, elements are
// copied in packs.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/views.hpp"

namespace trireme::cuda {
namespace {

struct CopyShape {
  static constexpr int most = max_dims;
  int dims;
  std::int64_t extent[most], to[most], from[most];  // strides in elements
};

// Returns the shape of both views without dims of one element. Adjacent dims that both views can
// traverse as one dim are merged.
CopyShape collapsed(const ConstView& dst, const ConstView& src) {
  CopyShape c{};
  for (std::size_t d = 0; d < static_cast<std::size_t>(dst.dims); ++d) {
    const auto extent = dst.extent[d], to = dst.stride[d], from = src.stride[d];
    if (extent == 1) continue;
    const int last = c.dims - 1;
    const bool merged = c.dims > 0 && c.to[last] == extent * to && c.from[last] == extent * from;
    const int at = merged ? last : c.dims++;
    c.extent[at] = merged ? c.extent[at] * extent : extent;
    c.to[at] = to;
    c.from[at] = from;
  }
  if (c.dims == 0) c = {1, {1}, {1}, {1}};
  return c;
}

// Returns true if packs of n elements never cross the end of a row and all begin at multiples of n.
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

// Returns x in the type for sums. Two elements are added in the wider of their types.
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

// Number of elements in a pack: 16 bytes of the narrower type, so that the packs of both types are
// whole accesses.
template <class To, class From>
inline constexpr int packed = pack_of<To> > pack_of<From> ? pack_of<To> : pack_of<From>;

template <class To, class From>
void copy(Stream stream, const View& dst, const ConstView& src, bool add) {
  auto* const to = reinterpret_cast<To*>(dst.data);
  const auto* const from = reinterpret_cast<const From*>(src.data);
  const auto shape = collapsed(dst, src);
  if constexpr (sizeof(To) < 8 && sizeof(From) < 8) {
    constexpr int N = packed<To, From>;
    if (in_packs(shape, N) && aligned(to, from))
      return launch_each(stream, "copy", dst.count() / N,
                         CopyPacks<N, To, From>{to, from, shape, add});
  }
  launch_each(stream, "copy", dst.count(), CopyEach<To, From>{to, from, shape, add});
}

template <class T>
void fill(Stream stream, const View& v, T value) {
  auto* const dst = at<T>(v);
  const auto shape = collapsed(v, v);
  const auto n = v.count();
  if (shape.dims == 1 && shape.to[0] == 1 && n % pack_of<T> == 0 && aligned(dst))
    return launch_each(stream, "fill", n / pack_of<T>, FillPacks<T>{dst, value});
  launch_each(stream, "fill", n, FillEach<T>{dst, value, shape});
}

// Calls f(T{}) for every type that a copy can cast.
template <class F>
void with_number(DType t, const F& f) {
  if (t == DType::f64) return f(double{});
  with_type(t, f);
}

}  // namespace

void run(const kernel::Copy& o, const OnStream& on) {
  expect(o.dst.dims == o.src.dims && o.dst.extent == o.src.extent,
         "copy: both sides have one shape");
  if (o.dst.count() == 0) return;
  const bool add = o.how == Accumulate::add;
  const auto type = o.dst.dtype;
  if (type == DType::i64 && o.src.dtype == type)
    return copy<std::int64_t, std::int64_t>(on.stream, o.dst, o.src, add);
  if (type == DType::i32 && o.src.dtype == type) {
    // i32 is copied as 4-byte elements without a cast.
    if (add) throw Error("copy does not add i32");
    return copy<float, float>(on.stream, o.dst, o.src, add);
  }
  with_number(type, [&]<class To>(To) {
    with_number(o.src.dtype,
                [&]<class From>(From) { copy<To, From>(on.stream, o.dst, o.src, add); });
  });
}

void run(const kernel::Fill& o, const OnStream& on) {
  const auto& v = o.dst;
  if (v.count() == 0) return;
  if (v.dtype == DType::i32) return fill(on.stream, v, static_cast<std::int32_t>(o.value));
  if (v.dtype == DType::i64) return fill(on.stream, v, static_cast<std::int64_t>(o.value));
  if (v.dtype == DType::f64) return fill(on.stream, v, o.value);
  with_type(v.dtype, [&]<class T>(T) { fill(on.stream, v, T(static_cast<float>(o.value))); });
}

}  // namespace trireme::cuda
