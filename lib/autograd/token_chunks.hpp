#pragma once
// Division of a micro-batch [B, T] into the chunks of tokens that a TokenwiseOps (tape.hpp)
// processes one at a time. The functions are pure.
#include <cstdint>
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme {

// A chunk: tokens [token, token + tokens) of samples [sample, sample + samples). A chunk is part of
// one sample or consists of whole samples, so its rows are contiguous in a [B, T, C] tensor.
struct TokenChunk {
  std::int64_t sample = 0, samples = 0, token = 0, tokens = 0;
  bool operator==(const TokenChunk&) const = default;
};

// Returns the chunks of a micro-batch in order. Each chunk has at most `at_once` tokens. If a whole
// sample fits in a chunk, chunks have as many whole samples as possible. Otherwise each sample is
// divided, and its last chunk may be shorter. If `at_once` is 0, there is one chunk.
std::vector<TokenChunk> token_chunks(std::int64_t samples, std::int64_t tokens,
                                     std::int64_t at_once);

// Returns the PassContext of a chunk's tokens. `start_BT` keeps all positions of the chunk's
// samples. `counted_RBT` is unchanged, because only routers read it and routers never run in
// chunks.
PassContext pass_of(const PassContext&, const TokenChunk&);

// Returns the chunk's rows of `x_BTC`. The result shares memory with `x_BTC`.
Tensor rows_of(const Tensor& x_BTC, const TokenChunk&);

}  // namespace trireme
