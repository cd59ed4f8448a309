#pragma once
// Digests (lib/base/digest.hpp) of the arrays that this rank holds in a store: gradients, weights
// and optimizer state. Comparing digests shows whether two runs are equal bit by bit.
#include "lib/base/digest.hpp"
#include "lib/shard/store.hpp"

namespace trireme {

// Returns digests of the summed gradients that the next update reads. They cover only elements that
// this rank represents (Sharding::reports). Adding the tables of all ranks gives the digests of the
// whole gradients.
DigestTable digests_of_gradients(Store&);
// Returns digests of all summed gradients that this rank reads in its next update. Unlike
// digests_of_gradients(), they include elements that a replica represents.
DigestTable digests_of_all_gradients(Store&);
// Returns digests of the weights, then of each optimizer array, for the elements that this rank
// represents. Adding the tables of all ranks gives the digests of the whole arrays.
DigestTable digests_of_state(Store&);
// Returns digests of everything that this rank keeps between updates: master weights, optimizer
// arrays and the weights' copies in the compute type. They include elements that a replica
// represents.
DigestTable digests_of_memory(Store&);

}  // namespace trireme
