#pragma once
// Which tokens of a microbatch [B, T] a stretch of forward (tape.hpp) takes at a time. Pure.
#include <cstdint>
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme {

// Tokens [token, token + tokens) of samples [sample, sample + samples): of one sample, or whole
// samples, so that they lie together in [B, T, C].
struct TokenChunk {
  std::int64_t sample = 0, samples = 0, token = 0, tokens = 0;
  bool operator==(const TokenChunk&) const = default;
};

// Of at most `at_once` tokens each, in order: as many whole samples as that holds, else ranges of a
// sample, whose last may be shorter. 0: all as one.
std::vector<TokenChunk> token_chunks(std::int64_t samples, std::int64_t tokens,
                                     std::int64_t at_once);

// The place of a chunk's tokens. start_BT stays that of all positions of its samples; routers,
// which no stretch has, read all of counted_RBT.
Place place_of(const Place&, const TokenChunk&);

// The chunk's rows of x_BTC; shares its memory.
Tensor rows_of(const Tensor& x_BTC, const TokenChunk&);

}  // namespace trireme
