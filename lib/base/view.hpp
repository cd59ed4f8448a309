#pragma once
// Shape, the extents of a dense tensor, and View, a reference to memory with an element type,
// extents and strides. A View does not own its memory. A default-constructed View is absent: it
// represents an operand or result that does not exist.
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include "lib/base/dtype.hpp"
#include "lib/base/expect.hpp"

namespace trireme {

inline constexpr int max_dims = 6;

// Extents of a dense tensor of up to `max_dims` dims.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) {
    if (extents.size() > max_dims) refuse(extents.size());
    for (auto n : extents) extent_[static_cast<std::size_t>(dims_++)] = n;
  }

  int dims() const { return dims_; }
  std::int64_t operator[](int dim) const { return extent_[static_cast<std::size_t>(dim)]; }
  std::int64_t count() const {
    std::int64_t n = 1;
    for (int d = 0; d < dims_; ++d) n *= (*this)[d];
    return n;
  }
  bool operator==(const Shape&) const = default;

 private:
  [[noreturn]] static void refuse(std::size_t dims);

  std::array<std::int64_t, max_dims> extent_{};
  int dims_ = 0;
};

// Formats the extents like "[4, 64, 768]".
std::string to_string(const Shape&);

// A non-owning reference to memory as a tensor. Strides are counted in elements. A view made from a
// Shape is dense.
template <class Byte>
struct BasicView {
  Byte* data = nullptr;
  DType dtype = DType::f32;
  int dims = 0;
  std::array<std::int64_t, max_dims> extent{}, stride{};

  BasicView() = default;
  BasicView(Byte* p, DType t, const Shape& s) : data(p), dtype(t), dims(s.dims()) {
    std::int64_t n = 1;
    for (int d = dims; d-- > 0;) {
      extent[static_cast<std::size_t>(d)] = s[d];
      stride[static_cast<std::size_t>(d)] = n;
      n *= s[d];
    }
  }

  // Converts a View to a ConstView.
  template <class Other>
  requires(std::is_const_v<Byte> && !std::is_const_v<Other>) BasicView(const BasicView<Other>& v)
      : data(v.data), dtype(v.dtype), dims(v.dims), extent(v.extent), stride(v.stride) {}

  explicit operator bool() const { return data != nullptr; }

  std::int64_t count() const {
    std::int64_t n = 1;
    for (int d = 0; d < dims; ++d) n *= extent[static_cast<std::size_t>(d)];
    return n;
  }
  // Returns the number of elements from the first to the last element, including gaps between rows.
  // Strides must not be negative.
  std::int64_t span() const {
    std::int64_t last = 0;
    for (int d = 0; d < dims; ++d) {
      const auto i = static_cast<std::size_t>(d);
      if (extent[i] == 0) return 0;
      last += (extent[i] - 1) * stride[i];
    }
    return last + 1;
  }
  std::size_t span_bytes() const { return static_cast<std::size_t>(span()) * bytes_of(dtype); }
  bool dense() const {
    std::int64_t n = 1;
    for (int d = dims; d-- > 0;) {
      const auto i = static_cast<std::size_t>(d);
      if (extent[i] != 1 && stride[i] != n) return false;
      n *= extent[i];
    }
    return true;
  }

  // Returns the view limited to indices [begin, begin + n) of dim `dim`.
  BasicView slice(int dim, std::int64_t begin, std::int64_t n) const {
    auto v = *this;
    const auto d = static_cast<std::size_t>(dim);
    expect(begin >= 0 && n >= 0 && begin + n <= extent[d], "slice stays inside the view");
    v.data += begin * stride[d] * static_cast<std::int64_t>(bytes_of(dtype));
    v.extent[d] = n;
    return v;
  }
  BasicView transposed() const {
    auto v = *this;
    expect(dims == 2, "only a matrix is transposed");
    std::swap(v.extent[0], v.extent[1]);
    std::swap(v.stride[0], v.stride[1]);
    return v;
  }
  // Returns a view of the same memory with another shape. The view must be dense, and both shapes
  // must have the same number of elements.
  BasicView reshaped(const Shape& s) const {
    expect(dense() && s.count() == count(), "reshape keeps a dense view's elements");
    return BasicView(data, dtype, s);
  }
};
using View = BasicView<std::byte>;
using ConstView = BasicView<const std::byte>;

}  // namespace trireme
