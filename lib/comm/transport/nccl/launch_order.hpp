#pragma once

namespace trireme::transport {

// Versions as the libraries number them: 12030 and 22600. Throws Error where NCCL cannot launch the
// work of several communicators in the order of the calls: two of them may then wait for each
// other's room on the device for ever ("Using multiple NCCL communicators concurrently" in its
// guide).
void require_launch_order(int driver, int nccl);

}  // namespace trireme::transport
