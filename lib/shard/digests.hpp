#pragma once
// Digests (64-bit checksums, lib/base/digest.hpp) of the arrays that this rank holds in a store:
// gradients, weights and optimizer state. Equal digests show that two runs are equal bit by bit.
#include "lib/base/digest.hpp"
#include "lib/shard/store.hpp"

namespace trireme {

// Returns digests of the summed gradients that the next update reads. The digests cover only
// elements that this rank reports (Sharding::reports). The sum of the tables of all ranks contains
// the digests of the whole gradients.
DigestTable digests_of_gradients(Store&);
// Returns digests of all summed gradients that this rank reads in its next update. Unlike
// digests_of_gradients(), the digests include elements that another replica reports.
DigestTable digests_of_all_gradients(Store&);
// Returns digests of the weights, then of each optimizer array, for the elements that this rank
// reports (Sharding::reports). The sum of the tables of all ranks contains the digests of the whole
// arrays.
DigestTable digests_of_state(Store&);
// Returns digests of everything that this rank keeps between updates: master weights, optimizer
// arrays and the copies of weights in the compute type. The digests include elements that another
// replica reports.
DigestTable digests_of_memory(Store&);

}  // namespace trireme
