#pragma once
// The files that a command line names, read as streams or, buffered, at any offset.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace trireme {

// Files, globs ("data/*.txt", expanded here in sorted order), folders (all files below, sorted,
// hidden ones left out) and "-" for standard input, each file once. Throws Error naming what does
// not exist or matches nothing.
std::vector<std::string> expand_inputs(const std::vector<std::string>& patterns);

// An open file or, for "-", standard input. Throws Error naming the file when it cannot be opened
// or read.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& name() const { return name_; }
  // Appends up to n bytes to `text`; less than n only at the end of the file.
  std::size_t append_to(std::string& text, std::size_t n);

  // Of a regular file; Error for a pipe.
  std::int64_t size() const;
  // Copies bytes [offset, offset + out.size()); Error when the file ends before that. Cheap for
  // increasing offsets.
  void read_at(std::int64_t offset, std::span<std::byte> out);

 private:
  std::size_t read_some(std::span<std::byte> out, std::int64_t offset);

  std::string name_;
  int fd_;
  std::vector<std::byte> buffer_;
  std::int64_t buffer_begin_ = 0, buffer_end_ = 0;
};

}  // namespace trireme
