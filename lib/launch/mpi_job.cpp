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

// MPI creates files when it starts. If a file exceeds the size limit, the signal would end the
// process without a message.
extern "C" {
static void on_size_limit(int) {
  constexpr std::string_view text =
      "error: MPI needs larger files than `ulimit -f` allows; raise this limit\n";
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(1);
}
}

// Requires MPI_THREAD_SERIALIZED, because a second thread informs the other ranks while the main
// thread does slow work.
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

// Returns true if UCX may carry messages over TCP: if UCX_TLS contains tcp, or if there are several
// nodes and no RDMA device. Ranks may get different results. Collective.
static bool may_use_tcp(const Communicator& world) {
  const bool several_nodes = world.node().size() < world.size();
  const char* chosen = std::getenv("UCX_TLS");
  if (chosen && std::string_view(chosen).find("tcp") != std::string_view::npos) return true;
  std::error_code e;  // set if the directory does not exist
  const bool rdma = std::filesystem::directory_iterator("/sys/class/infiniband", e) !=
                    std::filesystem::directory_iterator();
  return several_nodes && !rdma;
}

// Times at the end of a job over TCP: how long ranks poll for messages that are in transit, and how
// long they then make no MPI calls.
static constexpr std::chrono::milliseconds looking{50}, silent{500};

// Sends an empty message from each rank to each other rank.
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

// Prevents a hang in MPI_Finalize over TCP. UCX closes a connection on which it has sent only after
// the other rank answers, and a rank whose own connections are closed no longer answers in
// MPI_Finalize (openucx/ucx#8738, #2254). Therefore each rank first sends to every other rank, so
// that no rank can close all its connections without answers from the others. The ranks then
// receive what is in transit. Afterwards, no rank calls MPI until all ranks have reached the pause.
// A rank that answers in MPI_Finalize has then already asked all others.
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
  // Add this rank's own pauses, so that waits for other ranks have the full timeout.
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

// Returns the first line of the library's version text, which identifies the library. The text may
// have several pages.
std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "an unknown MPI";
  std::string line(text, static_cast<std::size_t>(length));
  line.resize(std::min(line.find('\n'), line.size()));
  std::erase(line, '\0');
  constexpr std::string_view label = " Version:";  // MPICH's label
  if (const auto at = line.find(label); at != std::string::npos) line.erase(at, label.size());
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

// Reads the launcher's own variables first. Within a job, mpiexec starts its helpers with srun, in
// a Slurm step with one task per node.
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
