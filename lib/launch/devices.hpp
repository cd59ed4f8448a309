#pragma once
// The choice of the GPU on which a rank computes.
#include <span>
#include <string>

#include "lib/comm/communicator.hpp"

namespace trireme::launch {

// Returns the index of this rank's GPU among those visible to the process. Collective. If `wanted`
// is false on a rank, the rank gets 0. Throws SharedError if a rank that wants a GPU sees none, or
// if two ranks would use the same GPU and `share` is false.
int gpu_of_rank(bool wanted, bool share, const Communicator& world);

// Throws Error unless all ranks have chosen the same backend, because different backends use
// different transports and would wait for each other. Each rank resolves run.backend = "auto" by
// itself. `names` is by rank.
void require_one_backend(std::span<const std::string> names);

// Returns a text like "ranks 0 and 2" that names two ranks with the same device, or an empty
// string. `identities` is by rank; an empty one means that the rank has no device.
std::string ranks_sharing(std::span<const std::string> identities);

}  // namespace trireme::launch
