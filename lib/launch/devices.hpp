#pragma once
// Choice of the GPU on which a rank computes.
#include <span>
#include <string>

#include "lib/comm/communicator.hpp"

namespace trireme::launch {

// Returns the index of this rank's GPU among the GPUs that are visible to the process. Collective.
// A rank on which `wanted` is false gets 0. Throws SharedError if a rank that wants a GPU sees
// none, or if two ranks would use the same GPU and `share` is false.
int gpu_of_rank(bool wanted, bool share, const Communicator& world);

// Throws Error unless all ranks have chosen the same backend. Each rank resolves run.backend =
// "auto" by itself, and ranks with different backends would use different transports and deadlock.
// `names` contains the name of each rank's backend.
void require_one_backend(std::span<const std::string> names);

// Returns text like "ranks 0 and 2" that names two ranks with the same device, or an empty string.
// `identities` contains the identity of each rank's device, or an empty string for a rank without a
// device.
std::string ranks_sharing(std::span<const std::string> identities);

}  // namespace trireme::launch
