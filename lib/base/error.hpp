#pragma once
// Functions that throw Error, the project's one exception type. Error messages say what is wrong,
// where, and what to do. Use `require` for conditions that a deck, a file or the machine may
// violate. These conditions are always checked. Use `expect` and `ensure` (lib/base/expect.hpp) for
// errors in this program.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "lib/base/expect.hpp"

namespace trireme {

// Returns the text with each NUL character written as "\x00". Texts from files may contain NULs,
// but what() ends at the first NUL.
std::string without_nul(std::string_view text);
// Throws Error with this message. NULs in the message are escaped.
[[noreturn]] void throw_error(std::string_view message);

// Throws Error with the formatted text.
template <class... A>
[[noreturn]] void fail(fmt::format_string<A...> text, A&&... args) {
  throw_error(fmt::format(text, std::forward<A>(args)...));
}

// Throws Error with the formatted text if `holds` is false.
template <class... A>
void require(bool holds, fmt::format_string<A...> text, A&&... args) {
  if (!holds) throw_error(fmt::format(text, std::forward<A>(args)...));
}

}  // namespace trireme
