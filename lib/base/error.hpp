#pragma once
// One exception type and three checks. Messages say what is wrong, where, and what to try.
//   require  of the deck, a file or the machine: always on, throws Error
//   expect   a precondition, ensure a postcondition of our own code: debug builds only
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace trireme {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class... A>
[[noreturn]] void fail(fmt::format_string<A...> text, A&&... args) {
  throw Error(fmt::format(text, std::forward<A>(args)...));
}

template <class... A>
void require(bool holds, fmt::format_string<A...> text, A&&... args) {
  if (!holds) throw Error(fmt::format(text, std::forward<A>(args)...));
}

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
