#pragma once
// The documents in a deck's training samples, for predicted times.
#include "lib/deck/deck.hpp"
#include "lib/plan/document_lengths.hpp"

namespace trireme {

// Reads the first samples of each training file: about 4 million tokens in all. If the files do not
// exist or cannot be read, logs the reason and returns no documents. The deck must be resolved.
DocumentLengths planned_documents(const Deck&);

}  // namespace trireme
