// A job whose ranks come to MPI_Finalize one after another, the first or the last rank first: it
// ends, over TCP (UCX_TLS) too. Usage: late_end first|last
#include <mpi.h>

#include <chrono>
#include <string_view>
#include <thread>

#include "lib/launch/mpi_job.hpp"

static int turn = 0;

// MPI's interface for tools: what the program calls is ours, which calls MPI's own.
int MPI_Finalize() {
  std::this_thread::sleep_for(std::chrono::milliseconds(100) * turn);
  return PMPI_Finalize();
}

int main(int, char** arguments) {
  const trireme::launch::MpiJob job(60);
  const auto& world = job.world();
  const bool first = arguments[1] == std::string_view("first");
  turn = first ? world.rank() : world.size() - 1 - world.rank();
  return 0;
}
