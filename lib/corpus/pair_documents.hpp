#pragma once
// Token ids of the two documents of a preference pair.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// Ids of a document, and a mask of the ids that are trained on.
struct TrainingDocument {
  std::vector<std::int32_t> ids;
  // Mask: 1 for each id that is trained on, otherwise 0.
  std::vector<std::uint8_t> targets;
};
struct PairDocuments {
  TrainingDocument chosen, rejected;
};

// Encodes a prompt and an answer as one document in which only the answer is trained on. The prompt
// may be empty.
TrainingDocument answer_document(const Tokenizer&, const std::string& prompt,
                                 const std::string& answer);

// Encodes {"prompt": .., "chosen": .., "rejected": ..}, whose values are strings. Only the answers
// are trained on. Throws Error if a field is missing (naming the field) or if a document is empty.
// The caller adds the file and line to the error.
PairDocuments pair_of_texts(const Tokenizer&, const nlohmann::json&);

// Returns true if both documents have the same target ids. A document's first id is never a target,
// because nothing predicts it.
bool same_answers(const PairDocuments&);
// Returns true if the answers begin the documents, and have different first ids.
bool differ_at_their_start(const PairDocuments&);

}  // namespace trireme
