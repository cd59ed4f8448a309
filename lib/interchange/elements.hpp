#pragma once
// Elements as files of models have them, to and from a checkpoint's f32 and f64.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "lib/base/dtype.hpp"
#include "lib/base/value_names.hpp"

namespace trireme {

enum class ElementType : std::uint8_t { f64, f32, f16, bf16 };
template <>
inline constexpr auto value_names<ElementType> = named<ElementType>("f64", "f32", "f16", "bf16");

std::size_t bytes_of(ElementType);
std::string_view safetensors_name(ElementType);  // "BF16"
std::string_view torch_name(ElementType);        // "bfloat16"
// By safetensors' name; none for a type that no weight has (integers, floats of 8 bits).
std::optional<ElementType> element_type(std::string_view safetensors_name);

ElementType element_type(DType);  // f32 or f64

// Little-endian elements, as many in `to` as in `from`. Exact but from f64 to f32.
void read_elements(ElementType, std::span<const std::byte> from, DType, std::span<std::byte> to);
// Rounded to the nearest, ties to even. f16 is not written. Error, which calls the tensor `name`,
// for one that is then not finite.
void write_elements(DType, std::span<const std::byte> from, ElementType, std::span<std::byte> to,
                    std::string_view name);

}  // namespace trireme
