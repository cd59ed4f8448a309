// The NCCL transport, which is part of libtrireme_cuda.so.
#include <nccl.h>

#include <cstdlib>

#include "lib/base/error.hpp"
#include "lib/comm/transport/nccl/launch_order.hpp"
#include "lib/comm/transport/nccl_transport.hpp"

namespace trireme::transport {
namespace {

// Throws Error if the call failed. ncclGetLastError() adds details to the error code, such as the
// peer or the interface.
void check_nccl(ncclResult_t code, const char* call, ncclComm_t comm) {
  if (code == ncclSuccess) return;
  const char* more = ncclGetLastError(comm);
  fail("NCCL: {} failed: {}{}{}", call, ncclGetErrorString(code), more && *more ? ": " : "",
       more ? more : "");
}

class NcclTransport final : public DeviceTransport {
 public:
  NcclTransport(int rank, int size, const ncclUniqueId& id) : rank_(rank), size_(size) {
    check_nccl(ncclCommInitRank(&comm_, size, id, rank), "ncclCommInitRank", nullptr);
  }
  // ncclCommAbort() also aborts running operations. None are left at the end of an orderly run.
  ~NcclTransport() override { ncclCommAbort(comm_); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void begin_group(void* stream) override {
    stream_ = static_cast<cudaStream_t>(stream);
    check_nccl(ncclGroupStart(), "ncclGroupStart", comm_);
  }
  void end_group() override { check_nccl(ncclGroupEnd(), "ncclGroupEnd", comm_); }

  // NCCL has no tags. Messages between two ranks match in the order in which they are posted.
  Request send(int to, int, std::span<const std::byte> bytes) override {
    check_nccl(ncclSend(bytes.data(), bytes.size(), ncclUint8, to, comm_, stream_), "ncclSend",
               comm_);
    return {};
  }
  Request receive(int from, int, std::span<std::byte> bytes) override {
    check_nccl(ncclRecv(bytes.data(), bytes.size(), ncclUint8, from, comm_, stream_), "ncclRecv",
               comm_);
    return {};
  }
  // Returns true at once, because later work on the stream sees the result.
  bool test(Request) override { return true; }

  Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                     void* stream) override {
    check_nccl(ncclAllGather(mine.data(), all.data(), mine.size(), ncclUint8, comm_,
                             static_cast<cudaStream_t>(stream)),
               "ncclAllGather", comm_);
    return {};
  }
  Request reduce_scatter(std::span<const float> all, std::span<float> mine, void* stream) override {
    check_nccl(ncclReduceScatter(all.data(), mine.data(), mine.size(), ncclFloat32, ncclSum, comm_,
                                 static_cast<cudaStream_t>(stream)),
               "ncclReduceScatter", comm_);
    return {};
  }

  void check() override {
    ncclResult_t state = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError", comm_);
    check_nccl(state, "an operation", comm_);
  }

 private:
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  int rank_, size_;
};

std::string library_text() {
  int v = 0;
  check_nccl(ncclGetVersion(&v), "ncclGetVersion", nullptr);
  return fmt::format("NCCL {}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

// Configures NCCL to launch the work of all communicators on a device in the order of the calls.
void launch_in_order() {
  int driver = 0, nccl = 0;
  const auto code = cudaDriverGetVersion(&driver);
  require(code == cudaSuccess, "CUDA: cudaDriverGetVersion failed: {}", cudaGetErrorString(code));
  check_nccl(ncclGetVersion(&nccl), "ncclGetVersion", nullptr);
  require_launch_order(driver, nccl);
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
  // Make collectives allocate their memory now, before the backend takes the remaining memory.
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);
}

void choose_device(int device) {
  const auto code = cudaSetDevice(device);
  require(code == cudaSuccess, "CUDA: cudaSetDevice({}) failed: {}", device,
          cudaGetErrorString(code));
}

OpenDevice on(int device) {
  return [device](const Bootstrap& ranks) -> std::unique_ptr<DeviceTransport> {
    if (ranks.host.size() > 1) launch_in_order();
    choose_device(device);
    auto& host = ranks.host;
    ncclUniqueId id{};
    if (host.rank() == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr);
    ranks.wait(host.broadcast(0, std::as_writable_bytes(std::span(&id, 1))),
               "NCCL's address from the first rank");
    return std::make_unique<NcclTransport>(host.rank(), host.size(), id);
  };
}

}  // namespace

void require_launch_order(int driver, int nccl) {
  constexpr int least_driver = 12030, least_nccl = 22600;
  require(driver >= least_driver && nccl >= least_nccl,
          "NCCL {}.{}.{} on a driver for CUDA {}.{} cannot keep several communicators in order, so "
          "ranks could deadlock: use NCCL 2.26 or newer and a driver for CUDA 12.3 or newer, or "
          "set run.share_gpu = true, which sends messages through the host",
          nccl / 10000, nccl / 100 % 100, nccl % 100, driver / 1000, driver % 1000 / 10);
}

}  // namespace trireme::transport

extern "C" const trireme::transport::NcclLibrary* trireme_nccl() {
  static const trireme::transport::NcclLibrary library{.name = trireme::transport::library_text,
                                                       .on = trireme::transport::on};
  return &library;
}
