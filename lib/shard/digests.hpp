#pragma once
// Digests (lib/base/digest.hpp) of what this rank holds of a store.
#include "lib/base/digest.hpp"
#include "lib/shard/store.hpp"

namespace trireme {

// The sums that the next update reads, as far as this rank reports them; to be added over all
// ranks.
DigestTable digests_of_gradients(Store&);
// All that this rank updates its weights with, also where another rank reports them.
DigestTable digests_of_all_gradients(Store&);
// Weights, then the optimizer's arrays, likewise.
DigestTable digests_of_state(Store&);
// All that this rank keeps from one update to the next: copies of the weights, too, and what
// another rank reports.
DigestTable digests_of_memory(Store&);

}  // namespace trireme
