#pragma once
// Scores multiple-choice questions: determines which of several endings the model considers most
// likely.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tokenizer/tokenizer.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// A multiple-choice question.
struct Question {
  std::string context;
  std::vector<std::string> endings;
  std::int64_t label = 0;  // index of the right ending
};

// The token ids of a context followed by an ending.
struct EncodedEnding {
  std::vector<std::int32_t> ids;
  std::size_t first = 0;  // index of the ending's first token; at least 1
};

// Encodes a context and an ending like lm-evaluation-harness (Gao et al. 2021). Spaces at the end
// of the context are moved to the ending, which also gets a leading space if it has none. The
// context alone and the whole text are encoded, each with the tokenizer's prefix. If the context
// alone has n tokens, the ending's tokens are those of the whole text after the first n. An empty
// context is replaced by the begin-of-text token or, without one, by the separator. Throws Error if
// the ending has no token.
EncodedEnding encode_ending(const Tokenizer&, std::string_view context, std::string_view ending);

// The log-likelihood of an ending.
struct Score {
  double log_likelihood = 0;  // in nats, summed over the ending's tokens
  std::int64_t tokens = 0;
  double mean() const { return log_likelihood / static_cast<double>(tokens); }
};

// Returns the scores by question and ending, equal on every rank. If context and ending together
// exceed the model's context length, the beginning of the context is cut off. Throws Error if an
// ending alone exceeds the context length. The questions are divided among the data-parallel ranks.
// Collective.
std::vector<std::vector<Score>> score(Trainer&, std::span<const std::vector<EncodedEnding>>);

}  // namespace trireme
