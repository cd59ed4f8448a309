#pragma once
// Access to views for the reference kernels. Elements are read and written as double, at any
// strides.
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

// The wide type of T: double for double, else float.
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

// Elements of a view as type T, or as const T for read-only access. Trailing indices may be omitted
// and are then 0.
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

// Calls body(T{}) with the C++ type T of the compute type `t`. Throws Error for other types.
// Intended for use once in a kernel, not in loops.
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
      fail("a kernel of the ref backend got integers instead of f32, bf16 or f64");
  }
}

// Calls use(c, sum) for each column c, where `sum` is the sum of term(t, c) over the rows t in
// ascending order. The function processes a few columns at a time.
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
