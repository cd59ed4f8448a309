#pragma once
// What a subcommand writes: its standard output, and files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/draft.hpp"
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

// Returns the path that an option names: "-" is standard output.
std::string output_named(std::string name);
// Returns the path that an option names. Refuses "-": the command prints other text.
std::string file_named(std::string name);
// Error where it cannot be written: it is a folder, there is something of that name other than an
// empty file or one of the kind, or such a file stays.
void require_output(const std::string& path, const FileKind&, ExistingFile);

// A file that appears under its name when it is finished, over none that stays. What is no regular
// file, such as a pipe, gets all as it is written.
class OutputFile {
 public:
  // Error as above, too.
  OutputFile(const std::string& path, const FileKind&, ExistingFile);
  void write(std::string_view);
  void finish();  // once

 private:
  std::string path_;
  std::optional<Draft> draft_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};
// All of it.
void write_output(const std::string& path, const FileKind&, ExistingFile, std::string_view text);

// --overwrite of a command that writes a file.
CLI::Option* add_overwrite(CLI::App&, ExistingFile&);

// Flushes stdout; Error when something printed could not be written.
void flush_output();

}  // namespace trireme
