#include "kernels/cuda/backend/nvtx.hpp"

#include <nvtx3/nvToolsExt.h>

#include "kernels/trace.hpp"

namespace trireme::cuda {
namespace {

// Returns the profiler's handle, or null if there is no profiler. The first call to NVTX decides
// this.
nvtxDomainHandle_t domain() {
  static auto* const here = nvtxDomainCreateA("trireme");
  return here;
}

void push(const char* text) {
  nvtxEventAttributes_t a{};
  a.version = NVTX_VERSION;
  a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  a.messageType = NVTX_MESSAGE_TYPE_ASCII;
  a.message.ascii = text;
  nvtxDomainRangePushEx(domain(), &a);
}

void pop() {
  nvtxDomainRangePop(domain());
}

constexpr TraceDisplay display{push, pop};
int users = 0;  // number of open backends

}  // namespace

NvtxRanges::NvtxRanges() {
  if (users++ == 0 && domain()) Trace::show(&display);
}

NvtxRanges::~NvtxRanges() {
  if (--users == 0) Trace::show(nullptr);
}

}  // namespace trireme::cuda
