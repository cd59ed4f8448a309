#pragma once
// Digest: 64 bits of an array's bits, which reveal a fault or another computation; no forgery. It
// is a sum over blocks of the array, so that those who hold a block each may make it in any order:
//
//   words w of 32 bits, 16 a block, zeros behind the last; of block b with keys (k, l) = keys_of(b)
//   the sum over lanes j < 8 of (w_j + k + lane_key_j) * (w_{8+j} + l + lane_key_{8+j}),
//   words added modulo 2^32, products and their sum modulo 2^64
//
// NH of Black et al., "UMAC: fast and secure message authentication", 1999: a change of one word
// goes unseen with a probability of 2^-32. NaNs and the two zeros count by their bits.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/rng.hpp"

namespace trireme {

// Digests of a model's arrays: gradients, weights, what the optimizer keeps. By array, then
// ParamId; none where there is no such array.
struct DigestTable {
  std::vector<std::string> arrays;
  std::vector<std::vector<std::optional<std::uint64_t>>> of;
  bool operator==(const DigestTable&) const = default;
};

}  // namespace trireme

namespace trireme::digest {

inline constexpr int lanes = 8, words_a_block = 2 * lanes;
inline constexpr int bytes_a_block = 4 * words_a_block;

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
