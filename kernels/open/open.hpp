#pragma once
// Opens a backend by its name, and answers questions about backends that are not open.
#include <memory>
#include <string>
#include <string_view>

#include "kernels/backend.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/dry/dry.hpp"
#include "kernels/guards.hpp"

namespace trireme {

// Name and settings of a backend.
struct BackendChoice {
  std::string name = "auto";  // auto, host, ref, fenced or cuda
  int threads = 1;
  bool debug = false;  // fill unused memory with NaNs; on cuda, also wait for every operation
  Guards guards = Guards::off;
  // Seed for kernels/rounding, which perturbs all results by about their rounding errors. 0 turns
  // the perturbation off.
  std::uint64_t rounding = 0;
  int device = 0;  // this and the following members are for cuda
  CudaBits bits = CudaBits::fast;
  bool tf32 = false;
  std::size_t headroom = 0;  // bytes of free device memory that are left to libraries
  double hang_timeout = 0;   // seconds that the host may wait for the device; 0 means no limit
};

// Returns the name of the backend to open. "auto" becomes cuda if a device answers, else host.
// Other names are returned unchanged. For "auto", throws Error if the job has GPUs but none
// answers, or if the driver finds a device that this CUDA build cannot use.
std::string decide_backend(std::string_view name);

// Opens a backend. Throws Error if there is no backend with that name.
std::unique_ptr<Backend> open_backend(const BackendChoice&);
// Returns the properties that the dry backend needs to plan for this backend. No cuda device need
// be present.
DryTarget dry_target(const BackendChoice&);

// Returns one line of text that describes what the bits of results depend on besides the deck, the
// grid and the program: the kind of CPU or GPU, the versions of libraries and the instruction set
// in use.
std::string machine_kind(const BackendChoice&);

// Returns the type in which the backend computes if the deck requests `wanted`. If this machine
// cannot multiply bf16, bf16 becomes f32. Throws Error if the backend has no kernels for the type.
DType compute_type(const BackendChoice&, DType wanted);

}  // namespace trireme
