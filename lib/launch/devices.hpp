#pragma once
// Which GPU a rank computes on.
#include <span>
#include <string>

#include "lib/comm/communicator.hpp"

namespace trireme::launch {

// Collective. The number of this rank's device among those that it sees; 0 where `wanted` is false,
// which may differ between ranks. Error on all ranks when a rank sees none, or two ranks would get
// one device and may not share it.
int gpu_of_rank(bool wanted, bool share, const Communicator& world);

// Each rank resolves run.backend = "auto" on its own machine. Error when ranks chose different
// backends: they would use different transports and wait for each other. `names` by rank.
void require_one_backend(std::span<const std::string> names);

// The ranks that would share a device, for a message; empty: none. `identities` by rank, empty for
// a rank without a device.
std::string ranks_sharing(std::span<const std::string> identities);

}  // namespace trireme::launch
