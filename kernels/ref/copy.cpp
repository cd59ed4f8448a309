#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"
#include "lib/base/fixed.hpp"

namespace trireme::ref {
namespace {

// Calls body(dst, src) for each pair of elements. `d` is the first dim that this call traverses.
template <class Dst, class Src, class Body>
void walk(Dst* dst, const View& to, Src* src, const ConstView& from, int d, const Body& body) {
  if (d == to.dims) return body(*dst, *src);
  const auto i = static_cast<std::size_t>(d);
  const std::int64_t n = to.extent[i], dst_step = to.stride[i], src_step = from.stride[i];
  if (d == to.dims - 1) {
    for (std::int64_t e = 0; e < n; ++e) body(dst[e * dst_step], src[e * src_step]);
  } else {
    for (std::int64_t e = 0; e < n; ++e)
      walk(dst + e * dst_step, to, src + e * src_step, from, d + 1, body);
  }
}

template <class Dst, class Src, class Body>
void for_pairs(const View& dst, const ConstView& src, const Body& body) {
  walk(reinterpret_cast<Dst*>(dst.data), dst, reinterpret_cast<const Src*>(src.data), src, 0, body);
}

// Copies elements between equal types bit for bit. Ids and sample numbers are copied this way.
template <class T>
void copy_same(const View& dst, const ConstView& src) {
  for_pairs<T, T>(dst, src, [](T& to, T from) { to = from; });
}

template <class Dst, class Src>
void copy_cast(const View& dst, const ConstView& src, Accumulate how) {
  if (how == Accumulate::add)
    for_pairs<Dst, Src>(dst, src, [](Dst& to, Src from) { store(to, load(to) + load(from)); });
  else
    for_pairs<Dst, Src>(dst, src, [](Dst& to, Src from) { store(to, load(from)); });
}

template <class T>
void fill_as(const View& v, double value) {
  T element;
  if constexpr (std::is_integral_v<T>)
    element = static_cast<T>(value);
  else
    store(element, value);
  for_pairs<T, T>(v, v, [element](T& to, T) { to = element; });
}

}  // namespace

void run(const kernel::Copy& o) {
  const auto& [dst, src, how] = o;
  expect(dst.dims == src.dims && dst.extent == src.extent, "copy: both sides have one shape");
  if (dst.dtype == src.dtype && how == Accumulate::overwrite) {
    switch (bytes_of(dst.dtype)) {
      case 2:
        return copy_same<std::uint16_t>(dst, src);
      case 4:
        return copy_same<std::uint32_t>(dst, src);
      default:
        return copy_same<std::uint64_t>(dst, src);
    }
  }
  if (dst.dtype == DType::i64 && src.dtype == DType::i64)
    return for_pairs<std::int64_t, std::int64_t>(
        dst, src, [](std::int64_t& to, std::int64_t from) { to = fixed::wrapping_sum(to, from); });
  with_compute_type(dst.dtype, [&](auto to) {
    with_compute_type(src.dtype, [&](auto from) {
      copy_cast<decltype(to), decltype(from)>(o.dst, o.src, o.how);
    });
  });
}

void run(const kernel::Fill& o) {
  if (o.dst.dtype == DType::i32) return fill_as<std::int32_t>(o.dst, o.value);
  if (o.dst.dtype == DType::i64) return fill_as<std::int64_t>(o.dst, o.value);
  with_compute_type(o.dst.dtype, [&](auto t) { fill_as<decltype(t)>(o.dst, o.value); });
}

}  // namespace trireme::ref
