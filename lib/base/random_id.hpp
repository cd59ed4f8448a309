#pragma once
// Random identifiers that are unique in practice, for runs and for processes that hold a lock.
#include <cstddef>
#include <string>

namespace trireme {

inline constexpr std::size_t random_id_digits = 32;

// Returns `random_id_digits` hex digits from the system's random source.
std::string random_id();

}  // namespace trireme
