#pragma once
#include <cstdint>

namespace trireme::simulated {

// How often cuBLASLt was asked for algorithms.
std::int64_t heuristics_asked();

}  // namespace trireme::simulated
