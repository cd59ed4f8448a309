#pragma once
// Attention of the contract (kernels/operations.hpp) through cuDNN 9's fused engines, causal,
// strided, in bf16: Dao 2023, "FlashAttention-2", as NVIDIA builds it for each architecture. In a
// build without cuDNN's C++ frontend `supports` says no and a kernel of our own takes over.
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/attention/sdpa_plan.hpp"

namespace trireme::cuda {

// "cudnn-frontend 1.32.0", or empty in a build without it.
std::string sdpa_library();

class Sdpa {
 public:
  // A call is split into parts that need no more than `limit` bytes, where that can be.
  explicit Sdpa(Determinism, int sm = sm_hopper, std::size_t limit = sdpa_part_limit);
  ~Sdpa();
  Sdpa(Sdpa&&) noexcept;

  // Needs neither driver nor device. A call that is supported here but refused by the cuDNN at hand
  // throws Error.
  bool supports(const AttentionShape&, DType, Direction) const;
  std::size_t workspace(const AttentionShape&, Direction) const;  // bytes

  // Asynchronous on `stream` (a cudaStream_t), and so is its use of the workspace. The
  // first call with new extents or strides builds a plan, which may take a second. lse is the
  // natural log of the sum of exp(scale q k'). An engine may need more than workspace() says: then
  // smaller parts are taken, with one warning. False, and nothing was done: no part is small
  // enough. Throw Error with the shape and cuDNN's own words.
  bool run(void* stream, const kernel::Attention&);
  bool run(void* stream, const kernel::AttentionGrad&);

 private:
  struct Plans;
  std::unique_ptr<Plans> plans_;
};

// What cuDNN offers for a call on a device that need not be here, best first. Empty: refused, and
// `why` gets its words. Needs a libcuda to be loaded, if only the toolkit's stub. `device` is the
// text of a cudnnBackend device property descriptor, `sm` e.g. 90.
struct SdpaEngine {
  std::string name;       // cuDNN's: engine number and settings
  std::size_t workspace;  // bytes
};
std::vector<SdpaEngine> sdpa_engines(const SdpaKey&, const std::string& device, int sm,
                                     std::string* why);

}  // namespace trireme::cuda
