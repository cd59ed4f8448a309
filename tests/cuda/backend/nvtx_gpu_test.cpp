// A profiler may be linked into the program: here is one, which records what NVTX calls.
// Needs the toolkit's headers, no device.
#include "kernels/cuda/backend/nvtx.hpp"

#include <gmock/gmock.h>
#include <nvtx3/nvToolsExt.h>

#include "kernels/trace.hpp"

namespace {

std::vector<std::string> calls;

nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  calls.emplace_back(fmt::format("domain {}", name));
  return reinterpret_cast<nvtxDomainHandle_t>(&calls);
}
int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* a) {
  calls.push_back(domain == reinterpret_cast<nvtxDomainHandle_t>(&calls) ? a->message.ascii
                                                                         : "another domain");
  return 0;
}
int NVTX_API pop(nvtxDomainHandle_t) {
  calls.emplace_back("pop");
  return 0;
}

int NVTX_API attach(NvtxGetExportTableFunc_t table_of) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size);
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(create_domain);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}

}  // namespace

namespace trireme::cuda {

using testing::ElementsAre;

TEST(CudaNvtx, TellsAProfilerOfScopes) {
  InitializeInjectionNvtx2_fnptr = attach;  // NVTX looks there when it is called first
  { const TraceScope before("before"); }
  {
    const NvtxRanges ranges, of_a_second_backend;
    const TraceScope block("block", 2, Direction::backward, "blocks.1");
    { const TraceScope op("linear", 2, Direction::backward); }
  }
  { const TraceScope after("after"); }

  EXPECT_THAT(calls, ElementsAre("domain trireme", "block grad, blocks.1, microbatch 2",
                                 "linear grad, blocks.1, microbatch 2", "pop", "pop"));
  EXPECT_FALSE(Trace::watched());
}

}  // namespace trireme::cuda
