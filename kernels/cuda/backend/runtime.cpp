#include "kernels/cuda/runtime/runtime.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/runtime/waiting.hpp"
#include "lib/base/error.hpp"

namespace trireme::cuda {
namespace {

// Returns a function of the CUDA driver. Functions are looked up at run time, so that the program
// also starts on machines without a driver.
template <class F>
F* driver(const char* name) {
  void* p = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion(name, &p, 12000, cudaEnableDefault, &found), name);
  require(found == cudaDriverEntryPointSuccess && p != nullptr,
          "the CUDA driver lacks {}: update it", name);
  return reinterpret_cast<F*>(p);
}

void check_driver(CUresult code, const char* call) {
  if (code == CUDA_SUCCESS) return;
  const char* text = nullptr;
  driver<decltype(cuGetErrorString)>("cuGetErrorString")(code, &text);
  fail("CUDA: {} failed: {}", call, text ? text : "unknown error");
}

cudaStream_t stream_of(Runtime::Stream s) {
  return static_cast<cudaStream_t>(s);
}
cudaEvent_t event_of(Runtime::Mark m) {
  return static_cast<cudaEvent_t>(m);
}

class Device final : public Runtime {
 public:
  Device(int device, double hang_timeout) : device_(device), hang_timeout_(hang_timeout) {
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaFree(nullptr), "making a CUDA context");
  }

  Stream create_stream(Urgency u) override {
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    cudaStream_t s = nullptr;
    check(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking,
                                       u == Urgency::urgent ? greatest : least),
          "cudaStreamCreate");
    return s;
  }
  void destroy_stream(Stream s) noexcept override {
    if (!stuck_) cudaStreamDestroy(stream_of(s));
  }
  void synchronize(Stream s) override {
    wait([&] { return is_ready(cudaStreamQuery(stream_of(s))); });
  }
  void limit_waits(double seconds) override {
    hang_timeout_ = hang_timeout_ > 0 ? std::min(hang_timeout_, seconds) : seconds;
  }
  Mark create_mark() override {
    cudaEvent_t e = nullptr;
    check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreate");
    return e;
  }
  void destroy_mark(Mark m) noexcept override {
    if (!stuck_) cudaEventDestroy(event_of(m));
  }
  void record(Mark m, Stream s) override {
    check(cudaEventRecord(event_of(m), stream_of(s)), "cudaEventRecord");
  }
  void wait(Stream s, Mark m) override {
    check(cudaStreamWaitEvent(stream_of(s), event_of(m), 0), "cudaStreamWaitEvent");
  }
  bool passed(Mark m) override { return is_ready(cudaEventQuery(event_of(m))); }
  void synchronize_mark(Mark m) override {
    wait([&] { return passed(m); });
  }
  Mark create_timed_mark() override {
    cudaEvent_t e = nullptr;
    check(cudaEventCreate(&e), "cudaEventCreate");
    return e;
  }
  double milliseconds(Mark begin, Mark end) override {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, event_of(begin), event_of(end)), "cudaEventElapsedTime");
    return static_cast<double>(ms);
  }

  std::size_t page_bytes() override {
    const auto place = here();
    std::size_t bytes = 0;
    check_driver(driver<decltype(cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity")(
                     &bytes, &place, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                 "cuMemGetAllocationGranularity");
    return bytes;
  }
  std::size_t device_bytes() override {
    std::size_t left = 0, all = 0;
    check(cudaMemGetInfo(&left, &all), "cudaMemGetInfo");
    return left;
  }
  std::byte* reserve(std::size_t bytes) override {
    CUdeviceptr p = 0;
    check_driver(driver<decltype(cuMemAddressReserve)>("cuMemAddressReserve")(&p, bytes, 0, 0, 0),
                 "reserving device addresses");
    return reinterpret_cast<std::byte*>(p);
  }
  void back(std::byte* at, std::size_t bytes) override {
    const auto place = here();
    const auto p = reinterpret_cast<CUdeviceptr>(at);
    CUmemGenericAllocationHandle memory{};
    check_driver(driver<decltype(cuMemCreate)>("cuMemCreate")(&memory, bytes, &place, 0),
                 "taking device memory");
    const auto mapped = driver<decltype(cuMemMap)>("cuMemMap")(p, bytes, 0, memory, 0);
    // The mapping keeps the memory allocated, so the handle is not needed any more.
    driver<decltype(cuMemRelease)>("cuMemRelease")(memory);
    check_driver(mapped, "mapping device memory");
    backed_.emplace(at, bytes);
    const CUmemAccessDesc access{place.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    check_driver(driver<decltype(cuMemSetAccess)>("cuMemSetAccess")(p, bytes, &access, 1),
                 "opening device memory");
  }
  void release(std::byte* at, std::size_t reserved, std::size_t backed) noexcept override {
    if (stuck_) return;
    try {
      const auto unmap = driver<decltype(cuMemUnmap)>("cuMemUnmap");
      for (auto it = backed_.lower_bound(at); it != backed_.end() && it->first < at + backed;
           it = backed_.erase(it))
        unmap(reinterpret_cast<CUdeviceptr>(it->first), it->second);
      driver<decltype(cuMemAddressFree)>("cuMemAddressFree")(reinterpret_cast<CUdeviceptr>(at),
                                                             reserved);
    } catch (const Error&) {  // ignored, because the context ends with the process
    }
  }
  void pin(std::byte* at, std::size_t bytes) override {
    check(cudaHostRegister(at, bytes, cudaHostRegisterDefault), "pinning host memory");
  }
  void unpin(std::byte* at) noexcept override {
    if (!stuck_) cudaHostUnregister(at);
  }

  void copy_to_device(std::byte* to, const std::byte* pinned, std::size_t bytes,
                      Stream s) override {
    check(cudaMemcpyAsync(to, pinned, bytes, cudaMemcpyHostToDevice, stream_of(s)),
          "a copy to the device");
  }
  void copy_to_host(std::byte* to, const std::byte* device, std::size_t bytes, Stream s) override {
    check(cudaMemcpyAsync(to, device, bytes, cudaMemcpyDeviceToHost, stream_of(s)),
          "a copy to the host");
  }
  void set_bytes(std::byte* at, unsigned char value, std::size_t bytes, Stream s) override {
    check(cudaMemsetAsync(at, value, bytes, stream_of(s)), "cudaMemsetAsync");
  }

 private:
  static bool is_ready(cudaError_t code) {
    if (code == cudaErrorNotReady) return false;
    check(code, "work on the device");
    return true;
  }
  template <class Done>
  void wait(const Done& is_done) {
    stuck_ = stuck_ || !wait_for_device(hang_timeout_, is_done);
    require(!stuck_,
            "work on the GPU is not finished after {} s: the GPU or its driver is stuck, which the "
            "kernel log of the node may explain (dmesg). If the GPU is only slow, raise "
            "run.hang_timeout",
            hang_timeout_);
  }
  CUmemAllocationProp here() const {
    CUmemAllocationProp p{};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device_}};
    return p;
  }

  int device_;
  double hang_timeout_;
  bool stuck_ = false;
  std::map<std::byte*, std::size_t> backed_;
};

}  // namespace

std::unique_ptr<Runtime> open_runtime(int device, double hang_timeout) {
  return std::make_unique<Device>(device, hang_timeout);
}

}  // namespace trireme::cuda
