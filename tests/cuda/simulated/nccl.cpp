// NCCL between simulated devices, a process each, over MPI. Its rules: what is posted is part of a
// stream; messages of a pair match in the order of their posts, whatever their sizes and kinds; a
// group ends when all of it has, a send when it has been received; ranks put collectives in one
// order. What breaks them is a fault of the device, or hangs as it would.
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/error.hpp"
#include "tests/cuda/simulated/memory.hpp"
#include "tests/cuda/simulated/streams.hpp"

struct ncclComm {
  int rank, size, tag, device;
  std::vector<int> world;  // of each rank, its number in MPI_COMM_WORLD
  cudaStream_t stream = nullptr;
};

namespace trireme::simulated {
namespace {

using Bytes = std::vector<std::byte>;

enum class Call : std::uint64_t { message = 0x6e63636c, all_gather, reduce_scatter };

struct Header {
  Call call;
  std::uint64_t bytes;
};

struct Message {
  ncclComm* comm;
  Call call;
  int peer;
  std::byte* data;  // null: `copy` has it
  std::size_t bytes;
  Bytes copy;  // as it travels, with its header
  MPI_Request request = MPI_REQUEST_NULL;
};

// What ends together.
struct Group {
  cudaStream_t stream = nullptr;
  std::vector<Message> out, in;
  std::function<void(const Group&)> at_end;  // of a collective
  bool posted = false;
};

int depth = 0;
std::shared_ptr<Group> open_group;

void post(Group& g) {
  for (auto& m : g.out) {
    const Header h{m.call, m.bytes};
    m.copy.resize(sizeof h + m.bytes);
    std::memcpy(m.copy.data(), &h, sizeof h);
    std::memcpy(m.copy.data() + sizeof h, m.data, m.bytes);
  }
  for (auto& m : g.in) {
    m.copy.resize(sizeof(Header) + m.bytes);
    if (m.data) std::memset(m.data, 0xff, m.bytes);  // not to be read before it is here
  }
  const auto own = [](const Message& m) { return m.peer == m.comm->rank; };
  auto to_self = g.in.begin();
  for (const auto& m : g.out) {
    if (!own(m)) continue;
    to_self = std::find_if(to_self, g.in.end(), own);
    require(to_self != g.in.end() && to_self->bytes == m.bytes,
            "a message to oneself is not received");
    to_self++->copy = m.copy;
  }
  for (auto* const messages : {&g.in, &g.out})
    for (auto& m : *messages) {
      if (own(m)) continue;
      const int peer = m.comm->world[static_cast<std::size_t>(m.peer)], tag = m.comm->tag;
      const int n = static_cast<int>(m.copy.size());
      if (messages == &g.in)
        PMPI_Irecv(m.copy.data(), n, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &m.request);
      else
        PMPI_Issend(m.copy.data(), n, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &m.request);
    }
  g.posted = true;
}

bool step(Group& g) {
  if (!g.posted) post(g);
  bool all = true;
  for (auto* const messages : {&g.in, &g.out})
    for (auto& m : *messages) {
      if (m.request == MPI_REQUEST_NULL) continue;
      int done = 0;
      const int code = PMPI_Test(&m.request, &done, MPI_STATUS_IGNORE);
      require(code == MPI_SUCCESS, "NCCL: rank {} and rank {} disagree on a message's size",
              m.comm->rank, m.peer);
      all = all && done != 0;
    }
  if (!all) return false;
  for (const auto& m : g.in) {
    Header h{};
    std::memcpy(&h, m.copy.data(), sizeof h);
    require(h.call == m.call && h.bytes == m.bytes,
            "NCCL: rank {} expects {} bytes from rank {}, which sends {} or calls something else",
            m.comm->rank, m.bytes, m.peer, h.bytes);
    if (m.data) std::memcpy(m.data, m.copy.data() + sizeof h, m.bytes);
  }
  if (g.at_end) g.at_end(g);
  return true;
}

ncclResult_t put(const std::shared_ptr<Group>& g, const char* name) {
  const auto code = put_stepwise(g->stream, name, [g] { return step(*g); });
  return code == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

// Adds to the group that is open, or is one itself.
template <class Fill>
ncclResult_t call(ncclComm_t comm, cudaStream_t stream, const char* name, const Fill& fill) {
  if (comm->stream && comm->stream != stream) return ncclInvalidUsage;  // the program has one
  if (device_of(stream) != comm->device) return ncclInvalidUsage;
  comm->stream = stream;
  const auto g = depth > 0 ? open_group : std::make_shared<Group>();
  if (g->stream && g->stream != stream) return ncclInvalidUsage;
  g->stream = stream;
  fill(*g);
  return depth > 0 ? ncclSuccess : put(g, name);
}

template <class F>
void for_ranks(ncclComm_t comm, const F& f) {
  for (int r = 0; r < comm->size; ++r)
    if (r != comm->rank) f(r, static_cast<std::size_t>(r));
}

std::byte* device(const void* p) {
  return static_cast<std::byte*>(const_cast<void*>(p));
}

// Blocking, on the host: bytes from or to a process.
void finish(MPI_Request request) {
  for (int done = 0; !done; sched_yield()) PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
}
void send(int to, int tag, std::span<const int> numbers) {
  MPI_Request r{};
  PMPI_Isend(numbers.data(), static_cast<int>(numbers.size()), MPI_INT, to, tag, MPI_COMM_WORLD,
             &r);
  finish(r);
}
void receive(int from, int tag, std::span<int> numbers) {
  MPI_Request r{};
  PMPI_Irecv(numbers.data(), static_cast<int>(numbers.size()), MPI_INT, from, tag, MPI_COMM_WORLD,
             &r);
  finish(r);
}

struct Id {
  int world, tag;
};

}  // namespace
}  // namespace trireme::simulated

using namespace trireme::simulated;

// Devices do not wait for the program: what it calls while it waits for others lets this one go on.
int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  go_on();
  return PMPI_Test(request, done, status);
}

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) {
  return "an error of the simulation";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* out) {
  static int made = 0;
  int initialized = 0;
  Id id{0, 1 + made++};
  PMPI_Initialized(&initialized);
  if (initialized) PMPI_Comm_rank(MPI_COMM_WORLD, &id.world);
  id.tag += 1000 * id.world;  // no two communicators of a pair have one
  std::memcpy(out->internal, &id, sizeof id);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* out, int size, ncclUniqueId unique, int rank) {
  Id id{};
  std::memcpy(&id, unique.internal, sizeof id);
  auto* const comm =
      new ncclComm{rank, size, id.tag, 0, std::vector<int>(static_cast<std::size_t>(size))};
  cudaGetDevice(&comm->device);
  *out = comm;
  if (size == 1) return ncclSuccess;
  int mine[3] = {rank, 0, comm->device};
  PMPI_Comm_rank(MPI_COMM_WORLD, &mine[1]);
  std::vector<int> devices(static_cast<std::size_t>(size), comm->device);
  if (rank == 0) {
    comm->world[0] = mine[1];
    for (int i = 1; i < size; ++i) {
      int theirs[3] = {};
      receive(MPI_ANY_SOURCE, id.tag, theirs);
      comm->world[static_cast<std::size_t>(theirs[0])] = theirs[1];
      devices[static_cast<std::size_t>(theirs[0])] = theirs[2];
    }
    for (int r = 1; r < size; ++r) {
      send(comm->world[static_cast<std::size_t>(r)], id.tag, comm->world);
      send(comm->world[static_cast<std::size_t>(r)], id.tag, devices);
    }
  } else {
    send(id.world, id.tag, mine);
    receive(id.world, id.tag, comm->world);
    receive(id.world, id.tag, devices);
  }
  // "Duplicate GPU detected"
  std::ranges::sort(devices);
  return std::ranges::adjacent_find(devices) == devices.end() ? ncclSuccess : ncclInvalidUsage;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  *state = fault() ? ncclUnhandledCudaError : ncclSuccess;
  return ncclSuccess;
}
const char* ncclGetLastError(ncclComm_t) {
  return fault();
}

ncclResult_t ncclGroupStart() {
  if (depth++ == 0) open_group = std::make_shared<Group>();
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (depth == 0) return ncclInvalidUsage;
  if (--depth > 0) return ncclSuccess;
  const auto g = std::move(open_group);
  return g->stream ? put(g, "messages") : ncclSuccess;
}

ncclResult_t ncclSend(const void* from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (type != ncclUint8 || peer < 0 || peer >= comm->size || !on_device(from, n))
    return ncclInvalidArgument;
  return call(comm, stream, "a message out", [&](Group& g) {
    g.out.push_back({comm, Call::message, peer, device(from), n, {}});
  });
}
ncclResult_t ncclRecv(void* to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (type != ncclUint8 || peer < 0 || peer >= comm->size || !on_device(to, n))
    return ncclInvalidArgument;
  return call(comm, stream, "a message in", [&](Group& g) {
    g.in.push_back({comm, Call::message, peer, device(to), n, {}});
  });
}

ncclResult_t ncclAllGather(const void* mine, void* all, size_t n, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const auto ranks = static_cast<std::size_t>(comm->size);
  if (type != ncclUint8 || !on_device(all, n * ranks) || !on_device(mine, n))
    return ncclInvalidArgument;
  auto* const place = device(all) + n * static_cast<std::size_t>(comm->rank);
  return call(comm, stream, "all-gather", [&](Group& g) {
    g.at_end = [mine, place, n](const Group&) { std::memmove(place, mine, n); };
    for_ranks(comm, [&](int r, std::size_t at) {
      g.out.push_back({comm, Call::all_gather, r, device(mine), n, {}});
      g.in.push_back({comm, Call::all_gather, r, device(all) + n * at, n, {}});
    });
  });
}

ncclResult_t ncclReduceScatter(const void* all, void* sum, size_t n, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const auto bytes = n * sizeof(float);
  if (type != ncclFloat32 || op != ncclSum ||
      !on_device(all, bytes * static_cast<std::size_t>(comm->size)) || !on_device(sum, bytes))
    return ncclInvalidArgument;
  const auto* const own = device(all) + bytes * static_cast<std::size_t>(comm->rank);
  return call(comm, stream, "reduce-scatter", [&](Group& g) {
    for_ranks(comm, [&](int r, std::size_t at) {
      g.out.push_back({comm, Call::reduce_scatter, r, device(all) + bytes * at, bytes, {}});
      g.in.push_back({comm, Call::reduce_scatter, r, nullptr, bytes, {}});
    });
    g.at_end = [own, sum, n](const Group& whole) {
      std::vector<float> total(n), part(n);
      std::memcpy(total.data(), own, n * sizeof(float));
      for (const auto& m : whole.in) {
        std::memcpy(part.data(), m.copy.data() + sizeof(Header), n * sizeof(float));
        for (std::size_t i = 0; i < n; ++i) total[i] += part[i];
      }
      std::memcpy(sum, total.data(), n * sizeof(float));
    };
  });
}
