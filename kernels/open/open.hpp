#pragma once
// From a backend's name to a Backend, or to what a plan needs to know of it.
#include <memory>
#include <string>
#include <string_view>

#include "kernels/backend.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/dry/dry.hpp"
#include "kernels/guards.hpp"

namespace trireme {

struct BackendChoice {
  std::string name = "auto";  // auto, host, ref, fenced, cuda
  int threads = 1;
  bool debug = false;  // poison memory as it is given back
  Guards guards = Guards::off;
  // Not 0: all results are moved by what rounding may move them, at random from this seed
  // (kernels/rounding).
  std::uint64_t rounding = 0;
  int device = 0;  // of the cuda backend, as all below
  CudaBits bits = CudaBits::fast;
  bool tf32 = false;
  std::size_t headroom = 0;  // bytes of its memory that are left to others
};

// "auto" decided: cuda if a device answers, else host. Error when the job was given GPUs and none
// answers, and when the driver has a device that this build for CUDA cannot use.
std::string decide_backend(std::string_view name);

// Throws Error for a name that is no backend.
std::unique_ptr<Backend> open_backend(const BackendChoice&);
DryTarget dry_target(const BackendChoice&);

// What the bits of a backend depend on beside deck, grid and program, in a line of text: the kind
// of CPU or GPU, versions of libraries, instructions in use.
std::string machine_kind(const BackendChoice&);

// The type that the backend computes in when `wanted` is asked for: bf16 becomes f32 where this
// machine cannot multiply it. Error for a type that it has no kernels for.
DType compute_type(const BackendChoice&, DType wanted);

}  // namespace trireme
