#pragma once
// The documents in a deck's training samples, for predicted times.
#include "lib/deck/deck.hpp"
#include "lib/plan/document_lengths.hpp"

namespace trireme {

// Reads the first training samples: about 4 million tokens, but at most 512 samples. If the files
// do not exist or cannot be read, logs the reason and returns no documents. The deck must be
// resolved.
DocumentLengths planned_documents(const Deck&);

}  // namespace trireme
