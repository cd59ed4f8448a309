#pragma once
// Initial weights: element e of a parameter is mean + std * normal(key, e), the same number however
// the parameter is cut.
#include <cstdint>

#include "kernels/backend.hpp"

namespace trireme {

// A standard normal number: the inverse distribution function (Wichura 1988, AS 241) of a 53-bit
// uniform one. Within 1e-15 relative.
double normal(std::uint64_t key, std::int64_t element);

// Fills a dense view of f32 or f64 with elements [first, first + count) by way of the host.
void upload_normal(Backend&, View, std::int64_t first, std::uint64_t key, double mean, double std,
                   int threads);

}  // namespace trireme
