#pragma once
// Converts tensor elements between the types in model files and the f32 or f64 in a checkpoint.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "lib/base/dtype.hpp"
#include "lib/base/value_names.hpp"

namespace trireme {

// Element type of a tensor in a model file.
enum class ElementType : std::uint8_t { f64, f32, f16, bf16 };
template <>
inline constexpr auto value_names<ElementType> = named<ElementType>("f64", "f32", "f16", "bf16");

std::size_t bytes_of(ElementType);
std::string_view safetensors_name(ElementType);  // for example "BF16"
std::string_view torch_name(ElementType);        // for example "bfloat16"
// Returns the type with this safetensors name. Returns nullopt for types that are not supported for
// weights (integers and 8-bit floats).
std::optional<ElementType> element_type(std::string_view safetensors_name);

ElementType element_type(DType);

// Converts little-endian elements. `from` and `to` must have the same number of elements. The
// conversion is exact, except from f64 to f32.
void read_elements(ElementType, std::span<const std::byte> from, DType, std::span<std::byte> to);
// Converts elements to little-endian form, rounding to nearest with ties to even. Throws Error,
// naming the tensor `name`, if a result is not finite. Also throws Error for f16, which is not
// supported for output.
void write_elements(DType, std::span<const std::byte> from, ElementType, std::span<std::byte> to,
                    std::string_view name);

}  // namespace trireme
