#pragma once
// Names that nobody else draws: of a run, of a process at a lock.
#include <cstddef>
#include <string>

namespace trireme {

inline constexpr std::size_t random_id_digits = 32;

// So many hex digits from the system's source of random bits.
std::string random_id();

}  // namespace trireme
