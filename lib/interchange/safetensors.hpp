#pragma once
// Reads and writes safetensors files. A file consists of 8 bytes with the size of a JSON header,
// the header (name, type, shape and byte range of each tensor), and the elements of all tensors
// without gaps, little-endian and row-major. Format: https://github.com/huggingface/safetensors
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lib/base/posix_file.hpp"

namespace trireme {

// Description of a tensor in a file.
struct SafeTensor {
  std::string name;
  std::string type;  // for example "F32" or "BF16"
  std::vector<std::int64_t> shape;
  // Byte range of the elements. `begin` counts from the start of the file.
  std::int64_t begin = 0, bytes = 0;

  // Returns the number of elements.
  std::int64_t count() const;
  bool operator==(const SafeTensor&) const = default;
};

// Describes type and shape as text, for example "F32 [4, 64]".
std::string described(const SafeTensor&);

// Parses a header. `text` is the header's JSON text. The data follow it: `data` bytes from byte
// `data_begin` of the file on. Returns the tensors in the order of their data. Throws Error, naming
// `where`, unless names are unique, types are known, shapes match sizes, and the tensors cover the
// data without overlaps or gaps.
std::vector<SafeTensor> parse_header(std::string_view text, std::int64_t data_begin,
                                     std::int64_t data, std::string_view where);

// A safetensors file that is open for reading.
class SafetensorsFile {
 public:
  // Reads and checks the header. Throws Error, with the reason, if the header is invalid.
  explicit SafetensorsFile(const std::filesystem::path&);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<SafeTensor>& tensors() const { return tensors_; }
  // Returns a text of the header's metadata, or an empty text if it is absent.
  std::string metadata(const std::string& key) const;
  // Reads bytes [at, at + out.size()) of a tensor.
  void read(const SafeTensor&, std::int64_t at, std::span<std::byte> out) const;

 private:
  PosixFile file_;
  std::vector<SafeTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// Returns true if two tensors have the same type, shape and elements.
bool same_elements(const SafetensorsFile&, const SafeTensor&, const SafetensorsFile&,
                   const SafeTensor&);

// Writes a safetensors file sequentially.
class SafetensorsWriter {
 public:
  // Creates the file, which must not exist, and writes the header. The tensors are stored in the
  // given order. Their `begin` and `bytes` are ignored. `metadata` is added to the header's
  // metadata.
  SafetensorsWriter(const std::filesystem::path&, std::vector<SafeTensor>,
                    const std::map<std::string, std::string>& metadata = {});
  // Appends bytes to the file's data, which are the elements of all tensors in order.
  void append(std::span<const std::byte>);
  // Syncs the file to disk. Throws Error if fewer elements were appended than the header describes.
  void finish();

  // Returns an upper bound for the bytes that a tensor adds to the header.
  static std::int64_t header_bound(const SafeTensor&);

 private:
  PosixFile file_;
  std::int64_t at_ = 0, end_ = 0, written_back_ = 0;
};

}  // namespace trireme
