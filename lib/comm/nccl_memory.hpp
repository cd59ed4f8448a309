#pragma once
// Estimate of the device memory that NCCL allocates. The backend's memory account does not contain
// this memory.
#include <cstddef>

#include "lib/comm/axes.hpp"

namespace trireme {

// Returns the estimate in bytes. The estimate extrapolates published measurements within one NVLink
// node. The collectives of a communicator take 544 MB with two ranks and 688 MB with more (A100,
// github.com/NVIDIA/nccl/issues/964). Sends and receives take 32 channels of 12 MiB for each peer
// (H100, issue 1685). `last_stage` is the pipeline stage with the model's last layers.
std::size_t nccl_memory(const Axes&, int last_stage);

}  // namespace trireme
