#pragma once
// An estimate of the device memory that NCCL allocates. This memory is not in the backend's
// account.
#include <cstddef>

#include "lib/comm/axes.hpp"

namespace trireme {

// Returns the estimated bytes. They are extrapolated from measurements by others within one NVLink
// node: the collectives of a communicator take 544 MB with two ranks and 688 MB with more (A100,
// github.com/NVIDIA/nccl/issues/964); sends and receives take 32 channels of 12 MiB for each peer
// (H100, issue 1685). `last_stage` is the pipeline stage with the model's last layers.
std::size_t nccl_memory(const Axes&, int last_stage);

}  // namespace trireme
