#pragma once
// The documents in a deck's training samples, for predicted times.
#include "lib/deck/deck.hpp"
#include "lib/plan/document_lengths.hpp"

namespace trireme {

// Reads the documents of the first samples that the deck trains on, at most 512. Returns nothing
// known if attention is not kept within documents. If token files do not exist, logs that each
// sample is planned as one document. Throws Error if a file cannot be read. The deck must be
// resolved.
DocumentLengths planned_documents(const Deck&);

}  // namespace trireme
