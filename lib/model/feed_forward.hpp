#pragma once
// What a block computes of each token by itself, behind attention: one MLP, or a mixture of
// experts.
#include <memory>

#include "lib/autograd/tape.hpp"
#include "lib/model/spec.hpp"

namespace trireme {

class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual Value forward(Tape&, const Run&, Value h_BTC) const = 0;
};

// Of a block of the model.
std::unique_ptr<FeedForward> make_feed_forward(const ModelSpec&, std::int64_t layer);

}  // namespace trireme
