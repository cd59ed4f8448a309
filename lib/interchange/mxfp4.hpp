#pragma once
// Decodes MXFP4 (OCP Microscaling Formats 1.0), as in the experts of gpt-oss. A block contains 32
// numbers of 4 bits: a sign, two bits of exponent and one bit of mantissa (E2M1). They have a
// common scale of 8 bits, which is a power of two (E8M0). The first number of each byte is in the
// low bits.
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme::mxfp4 {

inline constexpr std::int64_t block = 32, code_bytes = block / 2;

// Decodes blocks: number = code * 2^(scale - 127). The result is exact, or infinite if it is too
// large for f32. `codes` has 16 bytes for each byte of `scales`, and `to` has 32 numbers.
void decode(std::span<const std::byte> codes, std::span<const std::byte> scales,
            std::span<float> to);

}  // namespace trireme::mxfp4
