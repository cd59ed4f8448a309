#pragma once
#include <string>

namespace trireme {

// e.g. "NCCL 2.28.9"; empty in a build without NCCL. Needs no device.
std::string nccl_library();

}  // namespace trireme
