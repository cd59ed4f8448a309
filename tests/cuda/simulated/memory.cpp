#include "tests/cuda/simulated/memory.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>
#include <vector>

#include "tests/cuda/simulated/streams.hpp"

namespace trireme::simulated {
namespace {

constexpr std::size_t page = std::size_t{2} << 20;
constexpr std::size_t device_bytes = std::size_t{4} << 30;

// By their first byte; neighbours are not one.
std::map<std::uintptr_t, std::size_t> reserved, mapped, pins;
std::size_t taken = 0;
int opened = 0;

std::uintptr_t number(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p);
}

bool inside(const std::map<std::uintptr_t, std::size_t>& ranges, std::uintptr_t at,
            std::size_t bytes) {
  const auto end = at + bytes;
  while (at < end) {
    auto it = ranges.upper_bound(at);
    if (it == ranges.begin()) return false;
    --it;
    if (it->first + it->second <= at) return false;
    at = it->first + it->second;
  }
  return true;
}

void protect_all(int how) {
  for (const auto& [at, bytes] : mapped) mprotect(reinterpret_cast<void*>(at), bytes, how);
}

// The driver's calls, found by name.
CUresult granularity(std::size_t* bytes, const CUmemAllocationProp*,
                     CUmemAllocationGranularity_flags) {
  *bytes = page;
  return CUDA_SUCCESS;
}
CUresult reserve(CUdeviceptr* out, std::size_t bytes, std::size_t, CUdeviceptr,
                 unsigned long long) {
  if (bytes == 0 || bytes % page != 0) return CUDA_ERROR_INVALID_VALUE;
  void* p =
      mmap(nullptr, bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = (number(p) + page - 1) / page * page;
  munmap(p, *out - number(p));  // what is left of the page more on both sides
  munmap(reinterpret_cast<void*>(*out + bytes), number(p) + page - *out);
  madvise(reinterpret_cast<void*>(*out), bytes, MADV_HUGEPAGE);  // it is opened and closed often
  reserved.emplace(*out, bytes);
  return CUDA_SUCCESS;
}
CUresult create(CUmemGenericAllocationHandle* out, std::size_t bytes, const CUmemAllocationProp* p,
                unsigned long long) {
  if (bytes % page != 0 || p->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (taken + bytes > device_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  taken += bytes;
  *out = bytes;
  return CUDA_SUCCESS;
}
CUresult release(CUmemGenericAllocationHandle) {
  return CUDA_SUCCESS;
}
CUresult map(CUdeviceptr at, std::size_t bytes, std::size_t offset,
             CUmemGenericAllocationHandle memory, unsigned long long) {
  const bool free = inside(reserved, at, bytes) && !inside(mapped, at, 1);
  return free && offset == 0 && memory == bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult set_access(CUdeviceptr at, std::size_t bytes, const CUmemAccessDesc*, std::size_t n) {
  if (n != 1 || !inside(reserved, at, bytes)) return CUDA_ERROR_INVALID_VALUE;
  mprotect(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE);
  std::memset(reinterpret_cast<void*>(at), 0xff, bytes);  // what was there before
  if (opened == 0) mprotect(reinterpret_cast<void*>(at), bytes, PROT_NONE);
  mapped.emplace(at, bytes);
  return CUDA_SUCCESS;
}
CUresult unmap(CUdeviceptr at, std::size_t bytes) {
  const auto it = mapped.find(at);
  if (it == mapped.end() || it->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  mapped.erase(it);
  taken -= bytes;
  return CUDA_SUCCESS;
}
CUresult free_addresses(CUdeviceptr at, std::size_t bytes) {
  const auto it = reserved.find(at);
  if (it == reserved.end() || it->second != bytes || inside(mapped, at, 1))
    return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(at), bytes);
  reserved.erase(it);
  return CUDA_SUCCESS;
}
CUresult error_text(CUresult code, const char** text) {
  *text = code == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "invalid argument";
  return CUDA_SUCCESS;
}

}  // namespace

OpenMemory::OpenMemory() {
  if (opened++ == 0) protect_all(PROT_READ | PROT_WRITE);
}
OpenMemory::~OpenMemory() {
  if (--opened == 0) protect_all(PROT_NONE);
}

bool on_device(const void* p, std::size_t bytes) {
  return inside(mapped, number(p), bytes);
}
bool pinned(const void* p, std::size_t bytes) {
  return inside(pins, number(p), bytes);
}

// What is registered in pieces is not one to a copy.
static bool straddles(const void* p, std::size_t bytes) {
  const auto after = pins.upper_bound(number(p) + bytes - 1);
  if (after == pins.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return number(p) < begin;
}

}  // namespace trireme::simulated

using namespace trireme::simulated;

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const std::map<std::string_view, void*> calls{
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&granularity)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(&reserve)},
      {"cuMemCreate", reinterpret_cast<void*>(&create)},
      {"cuMemRelease", reinterpret_cast<void*>(&release)},
      {"cuMemMap", reinterpret_cast<void*>(&map)},
      {"cuMemSetAccess", reinterpret_cast<void*>(&set_access)},
      {"cuMemUnmap", reinterpret_cast<void*>(&unmap)},
      {"cuMemAddressFree", reinterpret_cast<void*>(&free_addresses)},
      {"cuGetErrorString", reinterpret_cast<void*>(&error_text)}};
  const auto it = calls.find(name);
  *found = it == calls.end() ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  *out = it == calls.end() ? nullptr : it->second;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* left, std::size_t* all) {
  *all = device_bytes;
  *left = device_bytes - taken;
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  return p ? cudaErrorNotSupported : cudaSuccess;  // null makes a context
}

cudaError_t cudaHostRegister(void* p, std::size_t bytes, unsigned) {
  return pins.emplace(number(p), bytes).second ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
}
cudaError_t cudaHostUnregister(void* p) {
  return pins.erase(number(p)) ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
}

// To memory of the host that is not pinned a copy is done before the call returns; from there it is
// read before.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const bool up = kind == cudaMemcpyHostToDevice;
  if (!up && kind != cudaMemcpyDeviceToHost) return cudaErrorNotSupported;
  if (!on_device(up ? to : from, bytes)) return cudaErrorInvalidValue;
  if (straddles(up ? from : to, bytes)) return cudaErrorInvalidValue;
  if (up && !pinned(from, bytes)) {
    std::vector<std::byte> kept(bytes);
    std::memcpy(kept.data(), from, bytes);
    return put(stream, "a copy",
               [to, kept = std::move(kept)] { std::memcpy(to, kept.data(), kept.size()); });
  }
  const auto code = put(stream, "a copy", [=] { std::memcpy(to, from, bytes); });
  return code == cudaSuccess && !up && !pinned(to, bytes) ? finish(stream) : code;
}
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  if (!on_device(at, bytes)) return cudaErrorInvalidValue;
  return put(stream, "a fill", [=] { std::memset(at, value, bytes); });
}
