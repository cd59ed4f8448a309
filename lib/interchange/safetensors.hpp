#pragma once
// Files of safetensors: 8 bytes with the size of a JSON header, the header (a name, type, shape
// and place for each tensor), then the tensors' elements without gaps, little-endian and
// row-major. Format: https://github.com/huggingface/safetensors
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lib/base/posix_file.hpp"

namespace trireme {

struct SafeTensor {
  std::string name;
  std::string type;  // "F32", "BF16", ...
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, bytes = 0;  // begin counts from the file's first byte

  std::int64_t count() const;
  bool operator==(const SafeTensor&) const = default;
};

// "F32 [4, 64]"
std::string described(const SafeTensor&);

// Of a header's text; `data` bytes follow it, from byte `data_begin` of the file on. In order of
// their place. Error naming `where` unless names differ, types are known, shapes and sizes agree,
// and the tensors cover the data without overlap or gap.
std::vector<SafeTensor> parse_header(std::string_view text, std::int64_t data_begin,
                                     std::int64_t data, std::string_view where);

class SafetensorsFile {
 public:
  // Reads and checks the header. Error naming what is wrong.
  explicit SafetensorsFile(const std::filesystem::path&);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<SafeTensor>& tensors() const { return tensors_; }
  // Bytes [at, at + out.size()) of a tensor.
  void read(const SafeTensor&, std::int64_t at, std::span<std::byte> out) const;

 private:
  PosixFile file_;
  std::vector<SafeTensor> tensors_;
};

// Writes one from front to back.
class SafetensorsWriter {
 public:
  // Creates the file, which must not exist. The tensors' places are decided here, in their order.
  SafetensorsWriter(const std::filesystem::path&, std::vector<SafeTensor>);
  // The next bytes of all elements.
  void append(std::span<const std::byte>);
  // Syncs. Error when elements are missing.
  void finish();

  // Bytes of a header with these tensors, at most.
  static std::int64_t header_bound(const SafeTensor&);

 private:
  PosixFile file_;
  std::int64_t at_ = 0, end_ = 0, written_back_ = 0;
};

}  // namespace trireme
