#pragma once
// Writes the standard output and the output files of subcommands.
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

// Prints `text` to stdout unchanged. Throws Error if the write fails.
void print(std::string_view text);
// Formats a text and prints it to stdout. Control characters are escaped, so that names and texts
// from files cannot control the terminal. Throws Error if the write fails.
template <class... A>
void say(fmt::format_string<A...> text, A&&... args) {
  print(without_controls(fmt::format(text, std::forward<A>(args)...)));
}

// Throws Error if the path `output` refers to the same file as the path `read`. An empty `output`
// is allowed.
void require_another_file(const std::string& output, const std::string& read);

// A kind of output file. `what` is its name, for messages. The other members serve to recognize an
// existing file of this kind. The file must begin with `begin`, which may be empty, and contain
// `mark` in its first MiB. If `begin` is not empty and the file is larger than 1 MiB, `mark` may be
// after the first MiB.
struct FileKind {
  std::string_view what, begin, mark;
};
inline constexpr FileKind report_page_file{"report page", "<!DOCTYPE html>", "<html"};
inline constexpr FileKind trace_file{"step trace", "{", "\"traceEvents\":"};
inline constexpr FileKind machine_file{"machine file", "", "[machine]"};
inline constexpr FileKind continuations_file{"continuation file", "{\"prompt\":", "\"ended\":\""};
inline constexpr FileKind answered_conversations_file{"conversation file",
                                                      "{\"messages\":", "\"ended\":\""};
inline constexpr FileKind document_losses_file{"file of document losses",
                                               "{\"document\":", "\"perplexity\":"};
inline constexpr FileKind answers_file{"question score file", "{\"question\":", "\"by_sum\":"};

// Converts the value of an option to the path of an output. Returns "/dev/stdout" for "-", and
// every other value unchanged.
std::string output_named(std::string name);
// Returns the value of an option that names a file. Throws CLI::ValidationError if the value is
// "-", because the command prints other text to standard output.
std::string file_named(std::string name);
// Checks that an output of this kind may be written to `path`. Pipes and devices are always
// allowed. Throws Error in these cases:
// - `path` is a folder.
// - `path` is an existing file that is neither empty nor of this kind.
// - `path` is an existing file that is not empty, and ExistingFile does not allow its replacement.
// - The folder of `path` does not exist.
void require_output(const std::string& path, const FileKind&, ExistingFile);

// An output file. The file appears under its name only when finish() is called. An existing file of
// that name is replaced only if require_output() allows its replacement. If the path is a pipe or
// device, write() writes immediately.
class OutputFile {
 public:
  // Calls require_output() and creates the file under a temporary name. Throws Error if the file
  // cannot be created, or if require_output() throws.
  OutputFile(const std::string& path, const FileKind&, ExistingFile);
  void write(std::string_view);
  // Completes the file and gives it its final name. Must be called exactly once.
  void finish();

 private:
  std::string path_;
  std::optional<Draft> draft_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};
// Creates an OutputFile, writes `text` to it, and finishes it.
void write_output(const std::string& path, const FileKind&, ExistingFile, std::string_view text);

// Adds the option --overwrite to a command. If a user passes the option, the parameter of type
// ExistingFile is set to `replaced`.
CLI::Option* add_overwrite(CLI::App&, ExistingFile&);

// Flushes stdout. Throws Error if the flush fails, or if an earlier write to stdout failed.
void flush_output();

}  // namespace trireme
