#pragma once
// How the reference kernels see a View: typed elements at any strides, read and written as double.
#include <cstdint>
#include <type_traits>

#include "kernels/operations.hpp"
#include "lib/base/error.hpp"

namespace trireme::ref {

inline double load(double x) {
  return x;
}
inline double load(float x) {
  return x;
}
inline double load(bf16 x) {
  return static_cast<float>(x);
}
inline void store(double& slot, double x) {
  slot = x;
}
inline void store(float& slot, double x) {
  slot = static_cast<float>(x);
}
inline void store(bf16& slot, double x) {
  slot = bf16(static_cast<float>(x));
}

template <class T>
struct WideOf {
  using type = float;
};
template <>
struct WideOf<double> {
  using type = double;
};
template <class T>
using Wide = typename WideOf<T>::type;

// Elements of type T (const T where they are only read) of a view. With fewer indices than dims the
// missing ones are 0.
template <class T>
class Elements {
 public:
  using AnyView = std::conditional_t<std::is_const_v<T>, ConstView, View>;
  explicit Elements(const AnyView& v) : data_(reinterpret_cast<T*>(v.data)), stride_(v.stride) {
    expect(!v || v.dtype == dtype_of<std::remove_const_t<T>>,
           "a kernel got a view of another type");
  }

  template <class... Index>
  T& at(Index... index) const {
    std::int64_t offset = 0;
    std::size_t d = 0;
    ((offset += index * stride_[d++]), ...);
    return data_[offset];
  }
  template <class... Index>
  double operator()(Index... index) const {
    return load(at(index...));
  }
  template <class... Index>
  void put(double x, Index... index) const {
    store(at(index...), x);
  }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  T* data_;
  std::array<std::int64_t, max_dims> stride_;
};

// body(T{}) for the compute type T that `t` names; once a call, never in a loop.
template <class Body>
void with_compute_type(DType t, const Body& body) {
  switch (t) {
    case DType::f32:
      return body(float{});
    case DType::bf16:
      return body(bf16{});
    case DType::f64:
      return body(double{});
    default:
      fail("a kernel of the ref backend got ids where it computes: views are f32, bf16 or f64");
  }
}

// use(c, sum over rows t = 0, 1, ... of term(t, c)) for each column, a few columns at a time.
template <class Term, class Use>
void sum_over_rows(std::int64_t rows, std::int64_t width, const Term& term, const Use& use) {
  constexpr std::int64_t block = 64;
  for (std::int64_t begin = 0; begin < width; begin += block) {
    const std::int64_t n = width - begin < block ? width - begin : block;
    double sum[block] = {};
    for (std::int64_t t = 0; t < rows; ++t)
      for (std::int64_t c = 0; c < n; ++c) sum[c] += term(t, begin + c);
    for (std::int64_t c = 0; c < n; ++c) use(begin + c, sum[c]);
  }
}

}  // namespace trireme::ref
