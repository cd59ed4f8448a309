#pragma once
// Functions for a subcommand's standard output and output files.
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

// Prints text to stdout unchanged. Throws Error if writing fails.
void print(std::string_view text);
// Prints to stdout with control characters escaped, so that names and texts from files cannot
// control the terminal.
template <class... A>
void say(fmt::format_string<A...> text, A&&... args) {
  print(without_controls(fmt::format(text, std::forward<A>(args)...)));
}

// Throws Error if `output` is the same file as `read`.
void require_another_file(const std::string& output, const std::string& read);

// A kind of output file, used to recognize existing files. `begin` is the beginning of such a file.
// `mark` is text that occurs in the first MiB of such a file. If `begin` is not empty, `mark` may
// occur later.
struct FileKind {
  std::string_view what, begin, mark;
};
inline constexpr FileKind report_page_file{"report page", "<!DOCTYPE html>", "<html"};
inline constexpr FileKind trace_file{"step trace", "{", "\"traceEvents\":"};
inline constexpr FileKind machine_file{"machine file", "", "[machine]"};
inline constexpr FileKind continuations_file{"continuation file", "{\"prompt\":", "\"ended\":\""};
inline constexpr FileKind answered_conversations_file{"conversation file",
                                                      "{\"messages\":", "\"ended\":\""};
inline constexpr FileKind answers_file{"question score file", "{\"question\":", "\"by_sum\":"};

// Returns the path in an option's value. "-" means standard output.
std::string output_named(std::string name);
// Returns the path in an option's value. Rejects "-", because the command prints other text to
// standard output.
std::string file_named(std::string name);
// Throws Error if an output must not be written to `path`: if `path` is a folder, is an existing
// file that is neither empty nor of this kind, or is an existing file that must not be replaced.
void require_output(const std::string& path, const FileKind&, ExistingFile);

// An output file that appears under its name only after it is finished. A file of that name is
// replaced only if require_output() allows it. If the output is a pipe or device, data is written
// immediately.
class OutputFile {
 public:
  // Creates the file. Throws Error if that fails, and under the conditions of require_output().
  OutputFile(const std::string& path, const FileKind&, ExistingFile);
  void write(std::string_view);
  // Publishes the file. Must be called exactly once.
  void finish();

 private:
  std::string path_;
  std::optional<Draft> draft_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};
// Writes a whole file with the content `text`.
void write_output(const std::string& path, const FileKind&, ExistingFile, std::string_view text);

// Adds the option --overwrite to a command that writes a file.
CLI::Option* add_overwrite(CLI::App&, ExistingFile&);

// Flushes stdout. Throws Error if any printed text could not be written.
void flush_output();

}  // namespace trireme
