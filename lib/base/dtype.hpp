#pragma once
// Element types of tensors, and bf16 as a C++ type. A bf16 is stored in two bytes. Arithmetic on
// bf16 values is done in f32.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trireme {

// Element types of tensors.
enum class DType : std::uint8_t { f32, bf16, f64, i32, i64 };

constexpr std::size_t bytes_of(DType t) {
  switch (t) {
    case DType::bf16:
      return 2;
    case DType::f64:
    case DType::i64:
      return 8;
    default:
      return 4;
  }
}

// Returns the type that sums, master weights and statistics have when the compute type is `t`: f32
// for bf16, otherwise `t`.
constexpr DType wide(DType t) {
  return t == DType::bf16 ? DType::f32 : t;
}

constexpr std::string_view name_of(DType t) {
  constexpr std::string_view names[] = {"f32", "bf16", "f64", "i32", "i64"};
  return names[static_cast<int>(t)];
}

// A 16-bit floating-point number: the upper half of an f32.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  // Rounds to the nearest bf16, ties to even. NaN stays NaN. The code has no branches, so compilers
  // vectorize loops over it.
  constexpr explicit bf16(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t rounded = u + 0x7fffU + ((u >> 16) & 1U), quiet = u | 0x400000U;
    bits = static_cast<std::uint16_t>((x == x ? rounded : quiet) >> 16);
  }
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};
static_assert(sizeof(bf16) == 2);

// The DType that corresponds to a C++ type. It is f32 for all types that are not listed below.
template <class T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;

}  // namespace trireme
