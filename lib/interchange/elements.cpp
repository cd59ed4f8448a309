#include "lib/interchange/elements.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "lib/base/error.hpp"

namespace trireme {

namespace {

static_assert(std::endian::native == std::endian::little);

struct f16 {
  std::uint16_t bits = 0;
};
static_assert(sizeof(f16) == 2);

float value_of(f16 x) {
  const std::uint32_t sign = (x.bits & 0x8000U) << 16, magnitude = x.bits & 0x7fffU;
  if (magnitude < 0x400U)  // zero or denormal: a multiple of 2^-24
    return std::copysign(static_cast<float>(magnitude) * 0x1p-24F, std::bit_cast<float>(sign));
  const bool finite = magnitude < 0x7c00U;
  const std::uint32_t exponent = finite ? (127 - 15) << 23 : 0x7f800000U - (0x7c00U << 13);
  return std::bit_cast<float>(sign | ((magnitude << 13) + exponent));
}
float value_of(bf16 x) {
  return static_cast<float>(x);
}
float value_of(float x) {
  return x;
}
double value_of(double x) {
  return x;
}

// Rounds x only once. The intermediate float is rounded to odd, which keeps the side of the float
// on which x lies.
bf16 rounded(double x) {
  auto f = static_cast<float>(x);
  auto bits = std::bit_cast<std::uint32_t>(f);
  if (static_cast<double>(f) != x && std::isfinite(f)) {
    if (std::abs(static_cast<double>(f)) > std::abs(x)) --bits;
    bits |= 1;
  }
  return bf16(std::bit_cast<float>(bits));
}

// Converts elements. Returns the index of the first one whose converted value is not finite.
template <class To, class From>
std::optional<std::size_t> convert(std::span<const std::byte> from, std::span<std::byte> to) {
  std::optional<std::size_t> bad;
  const auto n = from.size() / sizeof(From);
  require(from.size() == n * sizeof(From) && to.size() == n * sizeof(To),
          "a buffer of {} bytes has the wrong size for {} elements", to.size(), n);
  for (std::size_t i = 0; i < n; ++i) {
    From x;
    std::memcpy(&x, from.data() + i * sizeof(From), sizeof(From));
    To y;
    if constexpr (std::is_same_v<To, bf16> && std::is_same_v<From, double>)
      y = rounded(x);
    else
      y = static_cast<To>(value_of(x));
    std::memcpy(to.data() + i * sizeof(To), &y, sizeof(To));
    if (!std::isfinite(value_of(y)) && !bad) bad = i;
  }
  return bad;
}

template <class To>
void read_as(ElementType type, std::span<const std::byte> from, std::span<std::byte> to) {
  switch (type) {
    case ElementType::f64:
      convert<To, double>(from, to);
      break;
    case ElementType::f32:
      convert<To, float>(from, to);
      break;
    case ElementType::f16:
      convert<To, f16>(from, to);
      break;
    case ElementType::bf16:
      convert<To, bf16>(from, to);
      break;
  }
}

template <class From>
std::optional<std::size_t> write_as(std::span<const std::byte> from, ElementType type,
                                    std::span<std::byte> to) {
  switch (type) {
    case ElementType::f64:
      return convert<double, From>(from, to);
    case ElementType::f32:
      return convert<float, From>(from, to);
    case ElementType::bf16:
      return convert<bf16, From>(from, to);
    case ElementType::f16:
      break;
  }
  fail("weights cannot be written as f16, because its range is too small");
}

}  // namespace

std::size_t bytes_of(ElementType t) {
  return t == ElementType::f64 ? 8 : t == ElementType::f32 ? 4 : 2;
}

std::string_view safetensors_name(ElementType t) {
  constexpr std::string_view names[] = {"F64", "F32", "F16", "BF16"};
  return names[static_cast<int>(t)];
}

std::string_view torch_name(ElementType t) {
  constexpr std::string_view names[] = {"float64", "float32", "float16", "bfloat16"};
  return names[static_cast<int>(t)];
}

std::optional<ElementType> element_type(std::string_view name) {
  for (const auto t : {ElementType::f64, ElementType::f32, ElementType::f16, ElementType::bf16})
    if (safetensors_name(t) == name) return t;
  return {};
}

ElementType element_type(DType t) {
  return t == DType::f64 ? ElementType::f64 : ElementType::f32;
}

void read_elements(ElementType type, std::span<const std::byte> from, DType as,
                   std::span<std::byte> to) {
  if (as == DType::f64) return read_as<double>(type, from, to);
  read_as<float>(type, from, to);
}

void write_elements(DType as, std::span<const std::byte> from, ElementType type,
                    std::span<std::byte> to, std::string_view name) {
  const auto bad =
      as == DType::f64 ? write_as<double>(from, type, to) : write_as<float>(from, type, to);
  require(!bad, "{} contains a weight that is not finite as {}, so nothing was written", name,
          name_of(type));
}

}  // namespace trireme
