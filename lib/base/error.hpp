#pragma once
// One exception type and three checks. Messages say what is wrong, where, and what to try.
//   require  of the deck, a file or the machine: always on, throws Error
//   expect, ensure  of our own code (lib/base/expect.hpp)
#include <fmt/format.h>

#include <string>
#include <utility>

#include "lib/base/expect.hpp"

namespace trireme {

template <class... A>
[[noreturn]] void fail(fmt::format_string<A...> text, A&&... args) {
  throw Error(fmt::format(text, std::forward<A>(args)...));
}

template <class... A>
void require(bool holds, fmt::format_string<A...> text, A&&... args) {
  if (!holds) throw Error(fmt::format(text, std::forward<A>(args)...));
}

}  // namespace trireme
