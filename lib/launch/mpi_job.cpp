#include "lib/launch/mpi_job.hpp"

#include <fmt/ranges.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "lib/base/deadline.hpp"
#include "lib/base/log.hpp"
#include "lib/comm/transport/mpi_transport.hpp"
#include "lib/launch/drain.hpp"

namespace trireme::launch {

// MPI makes files of its own at its start, and ends the process silently where it cannot.
extern "C" {
static void on_size_limit(int) {
  constexpr std::string_view text =
      "error: MPI needs larger files than `ulimit -f` allows; raise this limit\n";
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(1);
}
}

// Serialized: while the main thread works on something slow, another one tells the other ranks.
MpiJob::MpiJob(double hang_timeout) {
  const Deadline limit("the start of MPI", launched_ranks() > 1 ? hang_timeout : 0);
  int provided = 0;
  const auto before = std::signal(SIGXFSZ, on_size_limit);
  require(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) == MPI_SUCCESS,
          "MPI_Init_thread failed");
  std::signal(SIGXFSZ, before);
  require(provided >= MPI_THREAD_SERIALIZED,
          "this MPI library does not support MPI_THREAD_SERIALIZED");
  world_ = Communicator(transport::mpi_world(), {.hang_timeout = hang_timeout});
  world_.take_roll();
}

// Does UCX carry messages over TCP, as far as can be seen from here? Between nodes, where there is
// no device for RDMA. Collective, though ranks may find different things.
static bool may_use_tcp(const Communicator& world) {
  const bool several_nodes = world.node().size() < world.size();
  const char* chosen = std::getenv("UCX_TLS");
  if (chosen && std::string_view(chosen).find("tcp") != std::string_view::npos) return true;
  std::error_code e;  // where there is no such directory
  const bool rdma = std::filesystem::directory_iterator("/sys/class/infiniband", e) !=
                    std::filesystem::directory_iterator();
  return several_nodes && !rdma;
}

// How long ranks look for what is on its way, and then call nothing, at the end over TCP.
static constexpr std::chrono::milliseconds looking{50}, silent{500};

// An empty message from each rank to each other one.
static void greet_all(int ranks, int rank) {
  std::vector<MPI_Request> requests;
  requests.reserve(2 * static_cast<std::size_t>(ranks));
  for (int other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    MPI_Irecv(nullptr, 0, MPI_BYTE, other, 0, MPI_COMM_WORLD, &requests.emplace_back());
    MPI_Isend(nullptr, 0, MPI_BYTE, other, 0, MPI_COMM_WORLD, &requests.emplace_back());
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

// Over TCP, UCX closes a connection that it has sent on only when the other rank answers, and a
// rank whose own connections are closed does not answer in MPI_Finalize any more (openucx/ucx#8738,
// #2254). So each rank sends to each, that none can close all without the others' answers; what is
// on its way comes, and then no rank calls MPI until all are past it: a rank that answers has then
// asked all others already.
static void drain_messages(int ranks, int rank) {
  greet_all(ranks, rank);
  MPI_Barrier(MPI_COMM_WORLD);
  const auto end = std::chrono::steady_clock::now() + looking;
  while (std::chrono::steady_clock::now() < end) {
    int found = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(silent);
}

MpiJob::~MpiJob() {
  if (const auto names = world_.abandoned(); !names.empty()) {
    log_error("rank {} ends while operations are in progress: {}", world_.rank(),
              fmt::join(names, "; "));
    abort(1);
  }
  const int ranks = world_.size(), rank = world_.rank();
  const bool alone = ranks == 1;
  const double timeout = alone ? 0 : world_.settings().hang_timeout;
  // Waits for others have all of the timeout, whatever this rank pauses for.
  const Deadline limit(
      "the end of MPI",
      timeout > 0 ? timeout + std::chrono::duration<double>(looking + silent).count() : 0);
  int tcp = !alone && may_use_tcp(world_);
  world_ = {};
  MPI_Allreduce(MPI_IN_PLACE, &tcp, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (tcp) drain_messages(ranks, rank);
  MPI_Finalize();
}

void MpiJob::abort(int code) const {
  std::fflush(nullptr);
  wait_until_read(STDOUT_FILENO, std::chrono::seconds(5));
  wait_until_read(STDERR_FILENO, std::chrono::seconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

// Its text may go on for pages; what identifies it stands in the first line.
std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "an unknown MPI";
  std::string line(text, static_cast<std::size_t>(length));
  line.resize(std::min(line.find('\n'), line.size()));
  std::erase(line, '\0');
  constexpr std::string_view label = " Version:";  // MPICH's
  if (const auto at = line.find(label); at != std::string::npos) line.erase(at, label.size());
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

// The launcher's own variables first: within a job mpiexec starts its helpers with srun, whose step
// has a task a node.
int launched_ranks() {
  for (const char* name : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* text = std::getenv(name);
    int n = 0;
    if (text && std::from_chars(text, text + std::strlen(text), n).ec == std::errc() && n > 0)
      return n;
  }
  return 0;
}

std::string launcher_of(int ranks) {
  const char* const in_step = std::getenv("SLURM_STEP_NUM_TASKS");
  if (in_step && in_step == fmt::format("{}", ranks)) return fmt::format("srun -n {} ", ranks);
  return ranks > 1 ? fmt::format("mpiexec -n {} ", ranks) : "";
}

}  // namespace trireme::launch
