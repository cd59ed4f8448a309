#include "tests/support/elements.hpp"

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace trireme {
namespace {

// f(T{}) of the element's type.
template <class F>
auto by_element(DType t, const F& f) {
  switch (t) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(bf16{});
    case DType::i32:
      return f(std::int32_t{});
    default:
      return f(std::int64_t{});
  }
}

}  // namespace

std::vector<std::byte> encode(DType t, const std::vector<double>& values) {
  return by_element(t, [&]<class T>(T) {
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
      T x;
      if constexpr (std::is_same_v<T, bf16>)
        x = bf16(static_cast<float>(values[i]));
      else
        x = static_cast<T>(values[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &x, sizeof(T));
    }
    return bytes;
  });
}

std::vector<double> decode(DType t, const std::vector<std::byte>& bytes) {
  return by_element(t, [&]<class T>(T) {
    std::vector<double> values(bytes.size() / sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
      T x;
      std::memcpy(&x, bytes.data() + i * sizeof(T), sizeof(T));
      if constexpr (std::is_same_v<T, bf16>)
        values[i] = static_cast<float>(x);
      else
        values[i] = static_cast<double>(x);
    }
    return values;
  });
}

}  // namespace trireme
