// Copies between views of any strides, with casts and addition, and fills.
#include <cstring>
#include <functional>
#include <numeric>

#include "kernels/host/blocks.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/host/stream.hpp"
#include "lib/base/fixed.hpp"

namespace trireme::host {
namespace {

// A copy as nested loops, the outermost first. Dims with one element are dropped. Adjacent dims
// that both views can traverse as one dim are merged. The dim with dst's smallest stride is
// innermost.
struct Nest {
  int dims = 0;
  std::array<std::int64_t, max_dims> extent{}, dst{}, src{};

  std::int64_t outer() const {  // number of runs of the innermost loop
    return std::accumulate(extent.begin(), extent.begin() + dims - 1, std::int64_t{1},
                           std::multiplies<>());
  }
};

Nest nest_of(const View& dst, const ConstView& src) {
  std::array<std::size_t, max_dims> order{};
  int dims = 0;
  for (std::size_t d = 0; d < static_cast<std::size_t>(dst.dims); ++d) {
    if (dst.extent[d] != 1) order[static_cast<std::size_t>(dims++)] = d;
  }
  std::stable_sort(order.begin(), order.begin() + dims,
                   [&](auto a, auto b) { return dst.stride[a] > dst.stride[b]; });
  Nest n;
  for (int i = 0; i < dims; ++i) {
    const auto d = order[static_cast<std::size_t>(i)];
    const auto last = static_cast<std::size_t>(n.dims - 1);
    if (n.dims > 0 && n.dst[last] == dst.stride[d] * dst.extent[d] &&
        n.src[last] == src.stride[d] * dst.extent[d]) {
      n.extent[last] *= dst.extent[d];
    } else {
      n.extent[static_cast<std::size_t>(n.dims++)] = dst.extent[d];
    }
    n.dst[static_cast<std::size_t>(n.dims - 1)] = dst.stride[d];
    n.src[static_cast<std::size_t>(n.dims - 1)] = src.stride[d];
  }
  if (n.dims == 0) n = {1, {1}, {1}, {1}};
  return n;
}

// Calls row(dst offset, src offset) for the outer iterations [begin, end) in order.
template <class Row>
void walk(const Nest& n, std::int64_t begin, std::int64_t end, const Row& row) {
  std::array<std::int64_t, max_dims> at{};
  std::int64_t to = 0, from = 0, left = begin;
  for (int i = n.dims - 2; i >= 0; --i) {
    const auto d = static_cast<std::size_t>(i);
    at[d] = left % n.extent[d];
    left /= n.extent[d];
    to += at[d] * n.dst[d];
    from += at[d] * n.src[d];
  }
  for (auto k = begin; k < end; ++k) {
    row(to, from);
    for (int i = n.dims - 2; i >= 0; --i) {
      const auto d = static_cast<std::size_t>(i);
      to += n.dst[d];
      from += n.src[d];
      if (++at[d] < n.extent[d]) break;
      to -= n.extent[d] * n.dst[d];
      from -= n.extent[d] * n.src[d];
      at[d] = 0;
    }
  }
}

template <class T>
auto value(const T& x) {
  if constexpr (std::is_same_v<T, double>) {
    return x;
  } else {
    return static_cast<float>(x);
  }
}

// Operations that a copy applies to each element.
struct Move {
  bool streams;  // bypasses the caches

  template <class T>
  void operator()(T& to, const T& from) const {
    to = from;
  }
};
struct Cast {
  template <class D, class S>
  void operator()(D& to, const S& from) const {
    put(to, value(from));
  }
};
struct Add {
  template <class D, class S>
  void operator()(D& to, const S& from) const {
    put(to, value(to) + value(from));
  }
};

struct AddCounts {
  void operator()(std::int64_t& to, std::int64_t from) const { to = fixed::wrapping_sum(to, from); }
};

template <class Op, class D, class S>
void run_row(D* to, std::int64_t to_step, const S* from, std::int64_t from_step, std::int64_t n,
             const Op& op) {
  if (to_step == 1 && from_step == 1) {
    if constexpr (std::is_same_v<Op, Move>) {
      const auto bytes = static_cast<std::size_t>(n) * sizeof(D);
      if (op.streams) {
        stream_copy(reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from),
                    bytes);
      } else {
        std::memcpy(to, from, bytes);
      }
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) op(to[i], from[i]);
    }
  } else if (to_step == 1 && from_step == 0) {
    const S x = *from;
    if constexpr (std::is_same_v<Op, Move>) {
      if (op.streams) return stream_fill(to, static_cast<std::size_t>(n), x);
    }
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) op(to[i], x);
  } else {
    for (std::int64_t i = 0; i < n; ++i) op(to[i * to_step], from[i * from_step]);
  }
}

// Copies in square tiles, so that the cache lines of both views stay in cache. This is for copies
// whose innermost dim has a large stride in src, while the dim `across` is dense in src.
template <class Op, class D, class S>
void run_transposed(D* dst, const S* src, Nest n, std::size_t across, const Op& op) {
  constexpr std::int64_t tile = 32;
  const auto width = n.extent[across], to_across = n.dst[across], from_across = n.src[across];
  for (auto d = across + 1; d < static_cast<std::size_t>(n.dims); ++d) {
    n.extent[d - 1] = n.extent[d];
    n.dst[d - 1] = n.dst[d];
    n.src[d - 1] = n.src[d];
  }
  --n.dims;
  const auto inner = static_cast<std::size_t>(n.dims - 1);
  const auto strips = (width + tile - 1) / tile;
  for_chunks(n.outer() * strips, 1, [&](std::int64_t item, std::int64_t) {
    const auto j0 = item % strips * tile, j1 = std::min(width, j0 + tile);
    walk(n, item / strips, item / strips + 1, [&](std::int64_t to, std::int64_t from) {
      for (std::int64_t i0 = 0; i0 < n.extent[inner]; i0 += tile) {
        const auto count = std::min(n.extent[inner] - i0, tile);
        for (auto j = j0; j < j1; ++j) {
          run_row(dst + to + j * to_across + i0 * n.dst[inner], n.dst[inner],
                  src + from + j * from_across + i0 * n.src[inner], n.src[inner], count, op);
        }
      }
    });
  });
}

template <class Op, class D, class S>
void run_nest(D* dst, const S* src, const Nest& n, const Op& op) {
  const auto inner = static_cast<std::size_t>(n.dims - 1);
  const auto width = n.extent[inner];
  if (n.src[inner] > 1) {
    const auto across = std::find(n.src.begin(), n.src.begin() + inner, 1) - n.src.begin();
    if (across < static_cast<std::ptrdiff_t>(inner)) {
      return run_transposed(dst, src, n, static_cast<std::size_t>(across), op);
    }
  }
  constexpr std::int64_t piece = 32768;  // long enough for memcpy's fast paths
  const auto pieces = (width + piece - 1) / piece;
  const auto items = pieces == 1 ? std::max<std::int64_t>(1, grain / width) : 1;
  for_chunks(n.outer() * pieces, items, [&](std::int64_t begin, std::int64_t end) {
    const auto i0 = begin % pieces * piece, count = std::min(width - i0, piece);
    walk(n, begin / pieces, (end - 1) / pieces + 1, [&](std::int64_t to, std::int64_t from) {
      run_row(dst + to + i0 * n.dst[inner], n.dst[inner], src + from + i0 * n.src[inner],
              n.src[inner], count, op);
    });
  });
}

template <class F>
void by_value(DType t, const F& f) {
  if (t == DType::f64) return f(double{});
  by_type(t, "copy", f);
}

// Copies elements of sizeof(T) bytes without interpreting them.
template <class T>
void move(const View& dst, const ConstView& src, const Nest& n) {
  const auto bytes = static_cast<std::size_t>(dst.count()) * sizeof(T);
  const auto row = static_cast<std::size_t>(n.extent[static_cast<std::size_t>(n.dims - 1)]);
  const bool streams = bytes >= stream_threshold && row * sizeof(T) >= 1024;
  run_nest(data<T>(dst), data<T>(src), n, Move{streams});
}

}  // namespace

void run(const kernel::Copy& o, View) {
  const auto& [dst, src, how] = o;
  expect(dst.dims == src.dims && dst.extent == src.extent, "a copy's views have the same extents");
  if (dst.count() == 0) return;
  const Nest n = nest_of(dst, src);
  if (dst.dtype == src.dtype && how == Accumulate::overwrite) {
    switch (bytes_of(dst.dtype)) {
      case 2:
        return move<std::uint16_t>(dst, src, n);
      case 4:
        return move<std::uint32_t>(dst, src, n);
      default:
        return move<std::uint64_t>(dst, src, n);
    }
  }
  if (dst.dtype == DType::i64 && src.dtype == DType::i64)
    return run_nest(data<std::int64_t>(dst), data<std::int64_t>(src), n, AddCounts{});
  by_value(dst.dtype, [&]<class D>(D) {
    by_value(src.dtype, [&]<class S>(S) {
      if (how == Accumulate::add) {
        run_nest(data<D>(dst), data<S>(src), n, Add{});
      } else if constexpr (!std::is_same_v<D, S>) {
        run_nest(data<D>(dst), data<S>(src), n, Cast{});
      }
    });
  });
}

// Fills by copying from one element, which is read with strides of 0.
void run(const kernel::Fill& o, View scratch) {
  const auto& [dst, x] = o;
  std::array<std::byte, 8> one{};
  const auto set = [&](auto v) { std::memcpy(one.data(), &v, sizeof v); };
  switch (dst.dtype) {
    case DType::f32:
      set(static_cast<float>(x));
      break;
    case DType::bf16:
      set(bf16(static_cast<float>(x)));
      break;
    case DType::f64:
      set(x);
      break;
    case DType::i32:
      set(static_cast<std::int32_t>(x));
      break;
    case DType::i64:
      set(static_cast<std::int64_t>(x));
      break;
  }
  ConstView src = dst;
  src.data = one.data();
  src.stride = {};
  run(kernel::Copy{.dst = dst, .src = src}, scratch);
}

}  // namespace trireme::host
