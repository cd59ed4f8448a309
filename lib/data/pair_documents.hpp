#pragma once
// The two documents of a pair of answers, as ids.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lib/data/tokenizer.hpp"

namespace trireme {

struct LearntDocument {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> targets;  // of each id: 1 when it is learnt
};
struct PairDocuments {
  LearntDocument chosen, rejected;
};

// A document of two texts, the first of which may be empty: what is behind it is learnt.
LearntDocument answer_document(const Tokenizer&, const std::string& prompt,
                               const std::string& answer);

// {"prompt": .., "chosen": .., "rejected": ..}, of texts; what is behind the prompt is learnt.
// Throws Error (without a place) naming what is missing, and where a document is empty.
PairDocuments pair_of_texts(const Tokenizer&, const nlohmann::json&);

// Are the targets the same ids? A document's first id is none, as nothing predicts it.
bool same_answers(const PairDocuments&);

}  // namespace trireme
