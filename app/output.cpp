#include "app/output.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"

namespace trireme {

void require_another_file(const std::string& output, const std::string& read) {
  std::error_code unknown;
  require(output.empty() || !std::filesystem::equivalent(output, read, unknown),
          "{} is the input file: name another file for the output", output);
}

std::string output_named(std::string name) {
  return name == "-" ? "/dev/stdout" : name;
}

std::string file_named(std::string name) {
  if (name == "-")
    throw CLI::ValidationError(
        "'-' is not a file name, and this command prints other text to standard output. Name a "
        "file");
  return name;
}

static bool is_stdout(const std::string& path) {
  return path == "/dev/stdout";
}

// Streams that may be files which others write to: nothing in them is replaced.
static bool is_open_already(const std::string& path) {
  return is_stdout(path) || path == "/dev/stderr" || path.starts_with("/dev/fd/");
}

static bool is_stream(const std::string& path) {
  std::error_code unknown;
  const auto type = std::filesystem::status(path, unknown).type();
  return is_open_already(path) ||
         (type != std::filesystem::file_type::regular && std::filesystem::exists(path, unknown));
}

static bool is_of_kind(const std::string& path, const std::string& head, std::size_t most,
                       const FileKind& kind) {
  const bool marked = head.find(kind.mark) != std::string::npos ||
                      (!kind.begin.empty() && head.size() == most);  // it may come later
  require(head.empty() || (head.starts_with(kind.begin) && marked),
          "{} exists and is not a {}: name another file for the output", path, kind.what);
  return !head.empty();
}

void require_output(const std::string& path, const FileKind& kind, ExistingFile existing) {
  std::error_code unknown;
  require(!std::filesystem::is_directory(path, unknown), "{} is a folder: name a file for the {}",
          path, kind.what);
  if (is_stream(path)) return;
  require_folder_of(path);
  if (!is_there(path)) return;
  std::ifstream file(path, std::ios::binary);
  require(file.good(), "cannot read the existing file {}, which would be replaced: {}", path,
          std::strerror(errno));
  constexpr std::size_t most = 1 << 20;
  std::string head(most, '\0');
  file.read(head.data(), most);
  head.resize(static_cast<std::size_t>(file.gcount()));
  const bool full = is_of_kind(path, head, most, kind);
  require(!full || existing == ExistingFile::replaced,
          "{} already exists: name another file, or replace it with --overwrite", path);
}

// Behind a link the file that it leads to is replaced.
static std::filesystem::path place_of_output(const std::string& path) {
  std::error_code unknown;
  const auto place = std::filesystem::weakly_canonical(path, unknown);
  return unknown ? std::filesystem::path(path) : place;
}

OutputFile::OutputFile(const std::string& path, const FileKind& kind, ExistingFile existing)
    : path_(path), file_(nullptr, &std::fclose) {
  require_output(path, kind, existing);
  if (is_stdout(path))
    return;  // print() writes it: a second stream would have an offset of its own
  if (!is_stream(path)) {
    // One that is empty may be replaced.
    const bool there = is_there(path);
    draft_.emplace(place_of_output(path), there ? ExistingFile::replaced : ExistingFile::stays);
  }
  const auto written = draft_ ? draft_->path().string() : path;
  file_.reset(std::fopen(written.c_str(), draft_ ? "wbxe" : "abe"));
  require(file_ != nullptr, "cannot write {}: {}", path_, std::strerror(errno));
}

void OutputFile::write(std::string_view text) {
  if (!file_) {
    print(text);
    return flush_output();
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() &&
                       std::fflush(file_.get()) == 0;
  require(written, "cannot write {}: {}", path_, std::strerror(errno));
}

void OutputFile::finish() {
  if (!file_) return flush_output();
  const bool synced = !draft_ || ::fsync(::fileno(file_.get())) == 0;
  require(synced, "cannot write {}: {}", path_, std::strerror(errno));
  file_.reset();
  if (draft_) draft_->publish();
}

void write_output(const std::string& path, const FileKind& kind, ExistingFile existing,
                  std::string_view text) {
  OutputFile file(path, kind, existing);
  file.write(text);
  file.finish();
}

CLI::Option* add_overwrite(CLI::App& command, ExistingFile& existing) {
  return command.add_flag_callback(
      "--overwrite", [&existing] { existing = ExistingFile::replaced; },
      "Replace the output file if it exists");
}

void print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  require(written, "cannot write the output: {}", std::strerror(errno));
}

void flush_output() {
  const bool flushed = std::fflush(stdout) == 0;
  require(flushed, "cannot write the output: {}", std::strerror(errno));
  require(std::ferror(stdout) == 0, "cannot write the output");
}

}  // namespace trireme
