#pragma once

namespace trireme::transport {

// Throws Error if NCCL cannot run the work of several communicators in the order of the calls. Two
// communicators could then wait forever for each other's space on the device ("Using multiple NCCL
// communicators concurrently" in NCCL's guide). The arguments are versions as the libraries number
// them, such as 12030 and 22600.
void require_launch_order(int driver, int nccl);

}  // namespace trireme::transport
