#pragma once
// The checkpoint that adapters stand beside: model.init_from of their deck.
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// Opens it. Error where the deck names none, and where it is of another model; `adapters`, if not
// null, are a checkpoint's: Error unless they were trained beside these weights.
CheckpointReader open_adapter_base(const Deck&, const CheckpointMeta* adapters);

}  // namespace trireme
