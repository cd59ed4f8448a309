#pragma once
#include <memory>

#include "lib/comm/transport/host_transport.hpp"

namespace trireme::transport {

// A copy of MPI_COMM_WORLD. MPI runs while it, or what was split off from it, is used.
std::unique_ptr<HostTransport> mpi_world();

}  // namespace trireme::transport
