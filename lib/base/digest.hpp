#pragma once
// Digests of arrays: 64-bit checksums that reveal a hardware fault or a different computation. They
// do not protect against forgery. A digest is a sum over blocks of the array, so ranks that hold
// different blocks can compute it in any order.
//
//   Each block has 16 words w of 32 bits; the last block is padded with zeros. For block b with
//   (k, l) = keys_of(b), the digest adds up, over lanes j < 8,
//     (w_j + k + lane_key_j) * (w_{8+j} + l + lane_key_{8+j})
//   Words are added modulo 2^32. Products and the digest are computed modulo 2^64.
//
// This is NH from Black et al., "UMAC: fast and secure message authentication", 1999. The
// probability that a change to one word is not detected is 2^-32. NaNs, +0 and -0 are distinguished
// by their bits.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/rng.hpp"

namespace trireme {

// Digests of a model's gradients, weights and optimizer state. `of[i][p]` belongs to the array
// `arrays[i]` of the parameter with ParamId `p`. If the parameter has no such array, the entry is
// empty.
struct DigestTable {
  std::vector<std::string> arrays;
  std::vector<std::vector<std::optional<std::uint64_t>>> of;
  bool operator==(const DigestTable&) const = default;
};

}  // namespace trireme

namespace trireme::digest {

inline constexpr int lanes = 8, words_a_block = 2 * lanes;
inline constexpr int bytes_a_block = 4 * words_a_block;

// The two keys with which the words of one block are hashed. The comment at the top of this file
// contains the formula.
struct Keys {
  std::uint32_t low, high;
};
constexpr Keys keys_of(std::int64_t block) {
  const auto k = mix64(static_cast<std::uint64_t>(block));
  return {static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(k >> 32)};
}
constexpr std::uint32_t lane_key(int word) {
  return static_cast<std::uint32_t>(mix64(~static_cast<std::uint64_t>(word)));
}
inline constexpr auto lane_keys = [] {
  std::array<std::uint32_t, words_a_block> all{};
  for (int w = 0; w < words_a_block; ++w) all[static_cast<std::size_t>(w)] = lane_key(w);
  return all;
}();

}  // namespace trireme::digest
