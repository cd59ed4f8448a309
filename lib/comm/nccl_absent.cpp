#include "lib/comm/nccl.hpp"

namespace trireme {

std::string nccl_library() {
  return {};
}

}  // namespace trireme
