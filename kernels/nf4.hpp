#pragma once
// How weights of 4 bits lie in memory: NormalFloat with quantised scales (QLoRA: Dettmers et al.
// 2023). 64 neighbours make a block, whose scale is its largest magnitude; 256 blocks make a
// record, which has all that its weights come to, so that an array may be cut between records:
//
//   words 0 to 2047     codes of 4 bits, eight a word; of a byte the first weight has the high half
//   words 2048 to 2111  a byte q for the scale of each block, four a word (kernels/math/nf4.hpp)
//   word 2112           f32, the largest scale, which the others are in units of
//   up to word 2127     zeros, so that records begin on 64 bytes
//
// 4.16 bits a weight.
#include <cstdint>

namespace trireme::nf4 {

inline constexpr std::int64_t block = 64, blocks = 256;  // weights of a block, blocks of a record
inline constexpr std::int64_t weights = block * blocks;  // of a record
inline constexpr std::int64_t code_words = weights / 8, scale_words = blocks / 4;
inline constexpr std::int64_t unit_word = code_words + scale_words;
inline constexpr std::int64_t record_words = (unit_word + 1 + 15) / 16 * 16;

}  // namespace trireme::nf4
