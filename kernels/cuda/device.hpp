#pragma once
// The CUDA backend as the rest of the program sees it, with no header of NVIDIA's. Its code is a
// shared object (library.hpp) that is opened when a device answers; in a build without the toolkit
// there is none.
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/guards.hpp"
#include "kernels/work.hpp"

namespace trireme {

// Must equal inputs give equal bits in every process? Then nothing is chosen by measurement and
// attention adds in a fixed order.
enum class CudaBits : std::uint8_t { fast, repeatable };

// What follows a product: part of it where that was measured to be faster, and never where bits are
// to be repeatable; or wherever cuBLASLt can, which is for tests.
enum class Epilogues : std::uint8_t { measured, always };

struct CudaChoice {
  int device = 0;
  CudaBits bits = CudaBits::fast;
  bool tf32 = false;            // may f32 products round their inputs to 10 bits?
  bool debug = false;           // poisons memory, waits for every operation
  Guards guards = Guards::off;  // on: debugs, too
  // Bytes of what is free when the backend is opened that are left to libraries.
  std::size_t headroom = 0;
  Epilogues epilogues = Epilogues::measured;
};

bool built_with_cuda();
// Has NVIDIA's driver a device? Otherwise `why` gets its words.
bool cuda_driver_answers(std::string* why);

// Number of usable devices. When there is none, `why` gets the reason, in the driver's or the
// runtime's own words. Asks the driver first, and loads CUDA's libraries when it has a device.
// Never throws for want of a device, a driver or a library.
int cuda_devices(std::string* why);

// What identifies this device: the same from whichever process it is asked, also of a
// slice of a GPU. Throws Error where there is none of that number.
std::string cuda_device_identity(int device);

// 90 for compute capability 9.0. Throws Error where there is none of that number.
int cuda_architecture(int device);

// Bytes of its memory, used or not. Throws Error where there is none of that number.
std::size_t cuda_device_bytes(int device);

// Versions of the libraries in use, which it loads: "CUDA runtime 13.0, cuBLASLt 13.1.0,
// cuDNN 9.19.0, cudnn-frontend 1.32.0". Needs no device. Empty in a build without the toolkit.
// Throws Error where they cannot be loaded.
std::string cuda_libraries();

// Throws Error where there is no such device.
std::unique_ptr<Backend> open_cuda(const CudaChoice&);
// How long each operation put on an open_cuda backend between the two calls took on the device, in
// order of names. The second waits for them.
void start_cuda_timing(Backend&);
std::vector<OperationTime> stop_cuda_timing(Backend&);

// Products of an open_cuda backend that had their epilogue, bias aside, as part of them.
std::int64_t cuda_fused_products(Backend&);

// What a plan needs to know: the same on every machine and in every build, with the toolkit or
// without. The lent workspace: half of it is cuBLASLt's; a measurement of products and sums on
// their way use the other half.
inline constexpr std::size_t cuda_workspace_bytes = std::size_t{64} << 20;
BackendProperties cuda_properties();
AttentionBytes cuda_attention_bytes(const AttentionShape&, DType, Direction, CudaBits);

}  // namespace trireme
