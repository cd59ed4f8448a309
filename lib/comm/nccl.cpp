#include "lib/comm/nccl.hpp"

#include <fmt/format.h>
#include <nccl.h>

#include "lib/base/error.hpp"

namespace trireme {

std::string nccl_library() {
  int v = 0;
  const ncclResult_t e = ncclGetVersion(&v);
  require(e == ncclSuccess, "NCCL: ncclGetVersion failed: {}", ncclGetErrorString(e));
  return fmt::format("NCCL {}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

}  // namespace trireme
