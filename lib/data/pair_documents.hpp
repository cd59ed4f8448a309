#pragma once
// Token ids of the two documents of a preference pair.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lib/data/tokenizer.hpp"

namespace trireme {

// A document's ids, with a mask of those that are trained on.
struct LearntDocument {
  std::vector<std::int32_t> ids;
  // 1 for each id that is trained on, otherwise 0.
  std::vector<std::uint8_t> targets;
};
struct PairDocuments {
  LearntDocument chosen, rejected;
};

// Encodes a prompt and an answer as one document and trains on the answer. The prompt may be empty.
LearntDocument answer_document(const Tokenizer&, const std::string& prompt,
                               const std::string& answer);

// Encodes {"prompt": .., "chosen": .., "rejected": ..}, whose values are texts, and trains on the
// answers. Throws Error, naming the missing field, and if a document is empty. The caller adds the
// file and line to the error.
PairDocuments pair_of_texts(const Tokenizer&, const nlohmann::json&);

// Returns true if both documents have the same target ids. A document's first id is never a target,
// because nothing predicts it.
bool same_answers(const PairDocuments&);

}  // namespace trireme
