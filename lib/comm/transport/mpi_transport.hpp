#pragma once
#include <memory>

#include "lib/comm/transport/host_transport.hpp"

namespace trireme::transport {

// Returns a transport over a duplicate of MPI_COMM_WORLD. MPI must stay initialized while this
// transport, or a transport split off from it, is in use.
std::unique_ptr<HostTransport> mpi_world();

}  // namespace trireme::transport
