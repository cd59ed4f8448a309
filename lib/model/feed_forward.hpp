#pragma once
// The feed-forward network of a transformer block: one MLP or a mixture of experts. The network
// follows attention.
#include <memory>

#include "lib/autograd/tape.hpp"
#include "lib/model/spec.hpp"

namespace trireme {

// A feed-forward network. The output for a token depends only on that token.
class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual Value forward(Tape&, const Run&, Value h_BTC) const = 0;
};

// Creates the feed-forward network of block `layer`.
std::unique_ptr<FeedForward> make_feed_forward(const ModelSpec&, std::int64_t layer);

}  // namespace trireme
