#pragma once
// Arrays that a host kernel may find awkward, and what a suite of host kernels needs.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/host/host.hpp"
#include "kernels/host/parallel.hpp"

namespace trireme {

using Bytes = std::vector<std::byte>;

// Memory with one element of padding in front, so that it is not aligned.
class Array {
 public:
  Array(DType t, const Shape& s)
      : bytes_(static_cast<std::size_t>(s.count() + 1) * bytes_of(t)),
        view_(bytes_.data() + bytes_of(t), t, s) {}
  // Values in [-amplitude, amplitude).
  Array(DType t, const Shape& s, std::uint64_t seed, float amplitude = 3) : Array(t, s) {
    for (std::int64_t i = 0; i < s.count(); ++i) {
      const auto r = philox4x32(seed, static_cast<std::uint64_t>(i), 0);
      set(i, amplitude * (2 * unit_float(r[0]) - 1));
    }
  }
  Array(const Array& a) : bytes_(a.bytes_), view_(a.view_) {
    view_.data = bytes_.data() + bytes_of(view_.dtype);
  }
  Array& operator=(const Array&) = delete;

  View view() const { return view_; }
  operator View() const { return view_; }
  operator ConstView() const { return view_; }
  void set(std::int64_t i, float x) {
    const auto store = [&](auto v) {
      std::memcpy(view_.data + static_cast<std::size_t>(i) * sizeof v, &v, sizeof v);
    };
    if (view_.dtype == DType::bf16) {
      store(bf16(x));
    } else {
      store(x);
    }
  }
  float operator[](std::int64_t i) const {
    const auto* p = view_.data + static_cast<std::size_t>(i) * bytes_of(view_.dtype);
    if (view_.dtype == DType::bf16) {
      bf16 x;
      std::memcpy(&x, p, sizeof x);
      return static_cast<float>(x);
    }
    float x = 0;
    std::memcpy(&x, p, sizeof x);
    return x;
  }
  Bytes bytes() const { return bytes_of_view(view_); }
  // Of elements [begin, begin + n) of the outermost dim.
  Bytes bytes(std::int64_t begin, std::int64_t n) const {
    return bytes_of_view(view_.slice(0, begin, n));
  }

 private:
  static Bytes bytes_of_view(const View& v) { return {v.data, v.data + v.span_bytes()}; }

  Bytes bytes_;
  View view_;
};

template <class T>
struct List {  // ids, sample numbers, sums
  std::vector<T> values;
  View view() const {
    return View(reinterpret_cast<std::byte*>(const_cast<T*>(values.data())), dtype_of<T>,
                {static_cast<std::int64_t>(values.size())});
  }
};

class HostKernels : public testing::TestWithParam<DType> {
 protected:
  DType type() const { return GetParam(); }
  View scratch(std::size_t bytes = std::size_t{1} << 20) {
    scratch_.resize(bytes);
    return View(scratch_.data(), DType::f32, {static_cast<std::int64_t>(bytes / 4)});
  }
  // make() leaves the same bytes with one thread and with three.
  template <class Make>
  void expect_same_on_any_threads(const Make& make) {
    host::set_threads(1);
    const Bytes one = make();
    host::set_threads(3);
    EXPECT_EQ(one, make());
    host::set_threads(1);
  }

 private:
  Host host_{1};
  Bytes scratch_;
};

}  // namespace trireme
