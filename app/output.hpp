#pragma once
// The standard output of a subcommand.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "lib/base/escaped.hpp"

namespace trireme {

// To stdout as it is. Error where it cannot be written.
void print(std::string_view text);
// Prints to stdout; a name or a text of a file in it cannot drive a terminal.
template <class... A>
void say(fmt::format_string<A...> text, A&&... args) {
  print(without_controls(fmt::format(text, std::forward<A>(args)...)));
}

// Error where an output would be written over the file that is read.
void require_another_file(const std::string& output, const std::string& read);

// How a file of a kind is known: by how it begins, and what is in its first MiB or may follow that.
struct FileKind {
  std::string_view what, begin, mark;
};
inline constexpr FileKind report_page_file{"page of a report", "<!DOCTYPE html>", "<html"};
inline constexpr FileKind trace_file{"trace of a step", "{", "\"traceEvents\":"};
inline constexpr FileKind machine_file{"machine file", "", "[machine]"};
inline constexpr FileKind continuations_file{"file of continuations",
                                             "{\"prompt\":", "\"ended\":\""};
inline constexpr FileKind answered_conversations_file{"file of answered conversations",
                                                      "{\"messages\":", "\"ended\":\""};
inline constexpr FileKind answers_file{"file of answers", "{\"question\":", "\"by_sum\":"};

// Of an option: - is standard output.
std::string output_named(std::string name);
// /dev/stdout and its like, which may be a file that others write to: nothing in it is replaced.
inline bool is_open_already(const std::string& output) {
  return output == "/dev/stdout" || output == "/dev/stderr" || output.rfind("/dev/fd/", 0) == 0;
}
// Error where there is something of that name other than an empty file or one of the kind.
void require_replaceable(const std::string& output, const FileKind&);
// The same of a regular file; a device or a pipe is written to.
void require_rewritable(const std::string& output, const FileKind&);

// Flushes stdout; Error when something printed could not be written.
void flush_output();

}  // namespace trireme
