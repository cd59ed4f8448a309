#pragma once
// Shows trace scopes as NVTX ranges in NVIDIA's profilers.

namespace trireme::cuda {

// While the object exists and a profiler is attached, each scope of the trace becomes an NVTX range
// of the main thread in the domain "trireme". Without a profiler, no text is formatted.
class NvtxRanges {
 public:
  NvtxRanges();
  ~NvtxRanges();
  NvtxRanges(const NvtxRanges&) = delete;
  NvtxRanges& operator=(const NvtxRanges&) = delete;
};

}  // namespace trireme::cuda
