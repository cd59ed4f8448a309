#pragma once
// The trace's scopes as NVTX ranges, in a domain "trireme" of the main thread, while this lives and
// a profiler is attached. Without one no text is made.

namespace trireme::cuda {

class NvtxRanges {
 public:
  NvtxRanges();
  ~NvtxRanges();
  NvtxRanges(const NvtxRanges&) = delete;
  NvtxRanges& operator=(const NvtxRanges&) = delete;
};

}  // namespace trireme::cuda
