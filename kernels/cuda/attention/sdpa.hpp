#pragma once
// Attention (kernels/operations.hpp) through the fused engines of cuDNN 9: causal, strided, in
// bf16. The engines are NVIDIA's versions of FlashAttention-2 (Dao 2023) for each architecture. In
// a build without cuDNN's C++ frontend, `supports` returns false, and this project's own kernels
// compute attention.
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/attention/sdpa_plan.hpp"

namespace trireme::cuda {

// Returns the name and version of the library, e.g. "cudnn-frontend 1.32.0". Returns an empty
// string in a build without cuDNN's C++ frontend.
std::string sdpa_library();

// Attention through cuDNN on one device. The object caches the execution plans that it has built.
class Sdpa {
 public:
  // `sm` is the device's architecture, e.g. 90. If possible, calls are split into parts that need
  // at most `limit` bytes of workspace each.
  explicit Sdpa(Determinism, int sm = sm_hopper, std::size_t limit = sdpa_part_limit);
  ~Sdpa();
  Sdpa(Sdpa&&) noexcept;

  // Returns true if cuDNN can compute attention of this shape and type. The function needs neither
  // a driver nor a device. If the installed cuDNN refuses a call that is supported here, run()
  // throws Error.
  bool supports(const AttentionShape&, DType, Direction) const;
  // Returns the bytes of workspace that a call needs.
  std::size_t workspace(const AttentionShape&, Direction) const;

  // Puts the operation on `stream` (a cudaStream_t). The call is asynchronous and uses its
  // workspace asynchronously. The first call with new extents or strides builds a plan, which may
  // take a second. lse is the natural log of the sum of exp(scale q k').
  //
  // If an engine needs more memory than workspace() returned, the call is split into smaller parts,
  // with one warning. Returns false and does nothing if no part is small enough. Throws Error, with
  // the shape and cuDNN's description, if cuDNN fails.
  bool run(void* stream, const kernel::Attention&);
  bool run(void* stream, const kernel::AttentionGrad&);

 private:
  struct Plans;
  std::unique_ptr<Plans> plans_;
};

// An engine that cuDNN offers for a call.
struct SdpaEngine {
  std::string name;       // cuDNN's name: engine number and settings
  std::size_t workspace;  // bytes
};
// Returns the engines for a call, best first. The device need not be present: `device` is a
// serialized cudnnBackend device property descriptor, and `sm` is the device's architecture, e.g.
// 90. If cuDNN refuses the call, returns an empty vector and sets `why` to cuDNN's reason. The
// function needs a loaded libcuda, for which the toolkit's stub suffices.
std::vector<SdpaEngine> sdpa_engines(const SdpaKey&, const std::string& device, int sm,
                                     std::string* why);

}  // namespace trireme::cuda
