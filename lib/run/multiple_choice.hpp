#pragma once
// Which of several endings a model finds likeliest: how multiple-choice questions are scored.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/tokenizer.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

struct Question {
  std::string context;
  std::vector<std::string> endings;
  std::int64_t label = 0;  // the right one's index
};

// An ending as tokens, behind its context's.
struct EncodedEnding {
  std::vector<std::int32_t> ids;
  std::size_t first = 0;  // where the ending begins; at least 1
};

// As lm-evaluation-harness encodes them (Gao et al. 2021): the ending gets a leading space if it
// has none and the spaces that end the context; its tokens are those that context and ending
// together have beyond as many as the context alone has. Both have the tokenizer's prefix. An empty
// context is the token that the tokenizer names as a text's begin or, without one, the separator.
EncodedEnding encode_ending(const Tokenizer&, std::string_view context, std::string_view ending);

struct Score {
  double log_likelihood = 0;  // natural logarithm, summed over the ending's tokens
  std::int64_t tokens = 0;
  double mean() const { return log_likelihood / static_cast<double>(tokens); }
};

// By question and ending. Where both together are longer than the model's context, the beginning is
// left out; Error when the ending alone is. Collective, equal on every rank; questions are dealt
// out to the data ranks.
std::vector<std::vector<Score>> score(Trainer&, std::span<const std::vector<EncodedEnding>>);

}  // namespace trireme
