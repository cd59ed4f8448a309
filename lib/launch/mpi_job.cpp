#include "lib/launch/mpi_job.hpp"

#include <fmt/ranges.h>
#include <mpi.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "lib/base/log.hpp"
#include "lib/comm/transport/mpi_transport.hpp"

namespace trireme::launch {

MpiJob::MpiJob() {
  int provided = 0;
  require(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS,
          "MPI_Init_thread failed");
  require(provided >= MPI_THREAD_FUNNELED, "this MPI does not support MPI_THREAD_FUNNELED");
  world_ = Communicator(transport::mpi_world());
}

MpiJob::~MpiJob() {
  if (const auto names = world_.abandoned(); !names.empty()) {
    log_error("rank {} ends with operations in flight: {}", world_.rank(), fmt::join(names, "; "));
    abort(1);
  }
  world_ = {};
  MPI_Finalize();
}

void MpiJob::abort(int code) const {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

int launched_ranks() {
  for (const char* name : {"SLURM_STEP_NUM_TASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}) {
    const char* text = std::getenv(name);
    int n = 0;
    if (text && std::from_chars(text, text + std::strlen(text), n).ec == std::errc() && n > 0)
      return n;
  }
  return 0;
}

}  // namespace trireme::launch
