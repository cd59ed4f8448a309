#pragma once
// The CUDA backend's interface to the rest of the program. It includes no NVIDIA header. The
// implementation is in a shared object (library.hpp), which the program opens if a device answers.
// A build without the CUDA toolkit has no such shared object.
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/guards.hpp"
#include "kernels/work.hpp"

namespace trireme {

// Reproducibility of results. With `repeatable`, equal inputs give equal bits in every process: no
// algorithm is chosen by timing, and attention adds in a fixed order.
enum class CudaBits : std::uint8_t { fast, repeatable };

// Policy for fusing the epilogue of a matrix product into the product. `measured` fuses where
// timing on the device shows a gain, and never with CudaBits::repeatable. `always`, for tests,
// fuses wherever cuBLASLt can.
enum class Epilogues : std::uint8_t { measured, always };

// Settings of the CUDA backend.
struct CudaChoice {
  int device = 0;
  CudaBits bits = CudaBits::fast;
  bool tf32 = false;            // f32 products may round their inputs to TF32, with 10 bits
  bool debug = false;           // fill new blocks with NaNs, and wait for every operation
  Guards guards = Guards::off;  // on: also turns on `debug`
  // Bytes of free device memory that the backend leaves to other libraries.
  std::size_t headroom = 0;
  double hang_timeout = 0;  // seconds that the host may wait for the device; 0 means no limit
  Epilogues epilogues = Epilogues::measured;
};

// Returns true if this build contains the CUDA backend.
bool built_with_cuda();
// Returns true if NVIDIA's driver finds a device. Otherwise sets `why` to the reason.
bool cuda_driver_answers(std::string* why);

// Returns the number of usable devices. If the number is 0, sets `why` to the reason, in the words
// of the driver or the CUDA runtime. The function asks the driver first, and loads CUDA's libraries
// only if the driver finds a device. A missing device, driver or library is not an error.
int cuda_devices(std::string* why);

// Returns text that identifies the device or a slice (MIG instance) of it. The text is the same in
// every process. Throws Error if there is no device with that number.
std::string cuda_device_identity(int device);

// Returns the architecture, e.g. 90 for compute capability 9.0. Throws Error if there is no device
// with that number.
int cuda_architecture(int device);

// Returns the total size of the device's memory in bytes. Throws Error if there is no device with
// that number.
std::size_t cuda_device_bytes(int device);

// Returns the versions of the libraries, e.g. "CUDA runtime 13.0, cuBLASLt 13.1.0, cuDNN 9.19.0,
// cudnn-frontend 1.32.0". The function loads the libraries but needs no device. Returns an empty
// string in a build without the CUDA toolkit. Throws Error if the libraries cannot be loaded.
std::string cuda_libraries();

// Opens the CUDA backend. Throws Error if the device does not exist.
std::unique_ptr<Backend> open_cuda(const CudaChoice&);
// Begins to time the operations that are put on a backend from open_cuda.
void start_cuda_timing(Backend&);
// Waits for the operations that were put on the backend since start_cuda_timing. Returns their
// times on the device, ordered by name.
std::vector<OperationTime> stop_cuda_timing(Backend&);

// Returns how many products of a backend from open_cuda were run with a fused epilogue. A bias does
// not count.
std::int64_t cuda_fused_products(Backend&);

// Size in bytes of the workspace that the backend is lent. cuBLASLt uses half of the workspace. The
// other half holds the results of timed products, and partial sums.
inline constexpr std::size_t cuda_workspace_bytes = std::size_t{64} << 20;
// Properties of the CUDA backend for planning. The properties are the same on every machine and in
// every build, with or without the CUDA toolkit.
BackendProperties cuda_properties();
// Returns the workspace and state that attention needs on the CUDA backend.
AttentionBytes cuda_attention_bytes(const AttentionShape&, DType, Direction, CudaBits);

}  // namespace trireme
