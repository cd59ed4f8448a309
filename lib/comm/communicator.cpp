#include "lib/comm/communicator.hpp"

#include <mpi.h>
#include <sched.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "lib/base/error.hpp"

namespace trireme {

static void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("{}: {}", call, std::string(text, static_cast<std::size_t>(length)));
}

static void finish(MPI_Request request) {
  for (int done = 0;;) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done) return;
    sched_yield();
  }
}

struct Communicator::Handle {
  MPI_Comm comm = MPI_COMM_NULL;
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  }
};

void Communicator::broadcast(std::string& text, int root) const {
  if (!handle_) return;
  MPI_Request request;
  auto length = static_cast<std::int64_t>(text.size());
  check(MPI_Ibcast(&length, 1, MPI_INT64_T, root, handle_->comm, &request), "MPI_Ibcast");
  finish(request);
  text.resize(static_cast<std::size_t>(length));
  require(length <= 1 << 30, "a text of {} bytes is too long to broadcast", length);
  check(MPI_Ibcast(text.data(), static_cast<int>(length), MPI_CHAR, root, handle_->comm, &request),
        "MPI_Ibcast");
  finish(request);
}

void Communicator::all_reduce(std::span<double> values) const {
  if (!handle_) return;
  MPI_Request request;
  check(MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE,
                       MPI_SUM, handle_->comm, &request),
        "MPI_Iallreduce");
  finish(request);
}

void Communicator::progress() const {}

MpiJob::MpiJob() {
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  require(provided >= MPI_THREAD_FUNNELED, "this MPI does not support threads beside it");
  world_.handle_ = std::make_shared<Communicator::Handle>();
  check(MPI_Comm_dup(MPI_COMM_WORLD, &world_.handle_->comm), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(world_.handle_->comm, MPI_ERRORS_RETURN),
        "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(world_.handle_->comm, &world_.rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(world_.handle_->comm, &world_.size_), "MPI_Comm_size");
}

MpiJob::~MpiJob() {
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

}  // namespace trireme
