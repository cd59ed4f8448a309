#pragma once

namespace trireme::transport {

// Throws Error if NCCL cannot run the work of several communicators in the order of the calls. Two
// communicators could then deadlock, each waiting for space on the device ("Using multiple NCCL
// communicators concurrently" in NCCL's guide). The arguments are version numbers as the CUDA
// driver and NCCL report them, such as 12030 and 22600.
void require_launch_order(int driver, int nccl);

}  // namespace trireme::transport
