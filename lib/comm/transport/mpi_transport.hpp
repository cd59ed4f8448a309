#pragma once
#include <memory>

#include "lib/comm/transport.hpp"

namespace trireme {

// A copy of MPI_COMM_WORLD. MPI runs while it or a part of it is used.
std::unique_ptr<Transport> mpi_world();

}  // namespace trireme
