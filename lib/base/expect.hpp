#pragma once
// Checks of our own code, in debug builds only: expect, a precondition, and ensure, a
// postcondition. Without fmt, which nvcc does not take.
#include <stdexcept>
#include <string>

namespace trireme {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

#ifdef NDEBUG
inline constexpr bool debug_checks = false;
#else
inline constexpr bool debug_checks = true;
#endif

inline void expect(bool holds, const char* what) {
  if (debug_checks && !holds) throw Error(std::string("precondition broken: ") + what);
}

inline void ensure(bool holds, const char* what) {
  if (debug_checks && !holds) throw Error(std::string("postcondition broken: ") + what);
}

}  // namespace trireme
