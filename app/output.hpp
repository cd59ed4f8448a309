#pragma once
// The standard output of a subcommand.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "lib/base/escaped.hpp"

namespace trireme {

// Prints to stdout; a name or a text of a file in it cannot drive a terminal.
template <class... A>
void say(fmt::format_string<A...> text, A&&... args) {
  fmt::print("{}", without_controls(fmt::format(text, std::forward<A>(args)...)));
}

// Error where an output would be written over the file that is read.
void require_another_file(const std::string& output, const std::string& read);

// Error where a file that is there would be replaced and is no `what`: its first MiB does not have
// `mark`. Empty ones are replaced, and what is no regular file is written to.
void require_replaceable(const std::string& output, std::string_view mark, std::string_view what);

// Flushes stdout; Error when something printed could not be written.
void flush_output();

}  // namespace trireme
