#pragma once
// What NCCL takes of a device's memory, beside the account.
#include <cstddef>

#include "lib/comm/axes.hpp"

namespace trireme {

// Bytes, an estimate from what others measured within a node of NVLink: a communicator's
// collectives take 544 MB with two ranks and 688 MB with more (A100,
// github.com/NVIDIA/nccl/issues/964), its direct messages 32 channels of 12 MiB for each rank that
// one is exchanged with (H100, issue 1685). `last_stage`: the one with the model's last layers.
std::size_t nccl_memory(const Axes&, int last_stage);

}  // namespace trireme
