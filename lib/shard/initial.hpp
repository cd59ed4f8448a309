#pragma once
// Random initial weights. Element e of a parameter is mean + std * normal(key, e), so its value
// does not depend on how the parameter is divided among ranks.
#include <cstdint>
#include <span>

#include "kernels/backend.hpp"

namespace trireme {

// Returns a standard normal random number for `element` of the random stream `key`. The function
// applies the inverse distribution function (Wichura 1988, AS 241) to a 53-bit uniform number. The
// relative error is at most 1e-15.
double normal(std::uint64_t key, std::int64_t element);

// Fills `out` with elements [first, first + size) of the parameter with random stream `key`, on up
// to `threads` threads. T is float or double.
template <class T>
void fill_normal(std::span<T> out, std::int64_t first, std::uint64_t key, double mean, double std,
                 int threads);

// Fills a dense view with elements [first, first + count) of the parameter with random stream
// `key`. The view's type must be f32 or f64. The host computes the numbers on `threads` threads and
// then uploads them.
void upload_normal(Backend&, View, std::int64_t first, std::uint64_t key, double mean, double std,
                   int threads);

}  // namespace trireme
