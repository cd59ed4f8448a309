#pragma once
// Memory layout of weights with 4 bits: NormalFloat with quantised scales (QLoRA: Dettmers et al.
// 2023). A block consists of 64 adjacent weights, and its scale is their largest magnitude. A
// record consists of 256 blocks and can be decoded without other records. An array may therefore be
// split between records. The 32-bit words of a record:
//
//   words 0 to 2047     4-bit codes, eight in a word; in a byte, the first weight has the high half
//   words 2048 to 2111  one byte q for the scale of each block, four in a word
//   word 2112           f32, the largest scale of the record; the bytes q are relative to it
//   up to word 2127     zeros, so that records begin at multiples of 64 bytes
//
// kernels/math/nf4.hpp explains codes and q.
// A weight takes 4.16 bits.
#include <cstdint>

namespace trireme::nf4 {

inline constexpr std::int64_t block = 64, blocks = 256;  // weights in a block, blocks in a record
inline constexpr std::int64_t weights = block * blocks;  // weights in a record
inline constexpr std::int64_t code_words = weights / 8, scale_words = blocks / 4;
inline constexpr std::int64_t unit_word = code_words + scale_words;
inline constexpr std::int64_t record_words = (unit_word + 1 + 15) / 16 * 16;

}  // namespace trireme::nf4
