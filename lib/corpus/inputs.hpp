#pragma once
// Expands the input paths of a command line, and reads input files sequentially or at any offset.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/corpus/unpacker.hpp"

namespace trireme {

// Returns the files that match `patterns`, each file once. A pattern is a file, a glob such as
// "data/*.txt" whose matches are sorted, a folder, or "-" for standard input. A folder means all
// files below it, sorted, without hidden ones. Throws Error, naming the pattern, if a file does not
// exist or nothing matches.
std::vector<std::string> expand_inputs(const std::vector<std::string>& patterns);

// Size and modification time of a regular file. A file whose stamp has not changed is assumed to
// have the same contents.
struct FileStamp {
  std::int64_t size = -1;     // in bytes; -1 for pipes and other files without a size
  std::int64_t modified = 0;  // nanoseconds since 1970
  bool operator==(const FileStamp&) const = default;
};

// Returns the stamp of a file.
FileStamp stamp_of(const std::string& path);

// Whether a compressed file is read as it is, or unpacked (lib/corpus/unpacker.hpp).
enum class Packed : std::uint8_t { as_is, unpacked };

// An open file, or standard input for "-". The functions throw Error, naming the file, if it cannot
// be opened or read.
class InputFile {
 public:
  explicit InputFile(const std::string& path, Packed = Packed::as_is);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }  // "-" for standard input
  // Appends up to `n` bytes to `text` and returns the number of bytes appended. The number is less
  // than `n` only at the end of the file.
  std::size_t append_to(std::string& text, std::size_t n);
  // Restricts append_to() to the bytes [begin, end) of a regular file that is not unpacked.
  void restrict_to(std::int64_t begin, std::int64_t end);
  // Returns true if it was restricted to no bytes.
  bool is_empty_range() const { return is_empty_range_; }
  // Returns true if append_to() starts at the beginning of the file.
  bool from_start() const { return from_start_; }
  // Returns true if append_to() ends at the end of the file.
  bool to_end() const { return to_end_; }
  // Returns true if the contents are unpacked.
  bool is_unpacked() const { return unpacker_ != nullptr; }
  FileStamp stamp() const;

  // The next two functions do not apply to unpacked files. Returns the size of a regular file.
  // Throws Error for a pipe.
  std::int64_t size() const;
  // Copies bytes [offset, offset + out.size()) to `out`. Reads are buffered, so reading at
  // increasing offsets is cheap. Throws Error if the file is too short.
  void read_at(std::int64_t offset, std::span<std::byte> out);

 private:
  std::size_t read_some(std::span<std::byte> out, std::int64_t offset);

  std::string path_, name_;
  int fd_;
  std::unique_ptr<Unpacker> unpacker_;
  std::int64_t left_ = std::numeric_limits<std::int64_t>::max();  // bytes that append_to() may read
  bool from_start_ = true, to_end_ = true, is_empty_range_ = false;
  std::vector<std::byte> buffer_;
  std::int64_t buffer_begin_ = 0, buffer_end_ = 0;
};

}  // namespace trireme
