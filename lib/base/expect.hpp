#pragma once
// The exception type Error, and checks for errors in this program. The checks are active in debug
// builds only. This header does not include fmt, because nvcc cannot compile fmt.
#include <stdexcept>
#include <string>

namespace trireme {

// The exception type with which every failure is reported to the user.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

#ifdef NDEBUG
inline constexpr bool debug_checks = false;
#else
inline constexpr bool debug_checks = true;
#endif

// Throws Error if a precondition does not hold. `what` describes the precondition. Does nothing in
// release builds.
inline void expect(bool holds, const char* what) {
  if (debug_checks && !holds) throw Error(std::string("precondition broken: ") + what);
}

// Throws Error if a postcondition does not hold. `what` describes the postcondition. Does nothing
// in release builds.
inline void ensure(bool holds, const char* what) {
  if (debug_checks && !holds) throw Error(std::string("postcondition broken: ") + what);
}

}  // namespace trireme
