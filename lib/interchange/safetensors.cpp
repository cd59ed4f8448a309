#include "lib/interchange/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/git_lfs.hpp"
#include "lib/base/json.hpp"

namespace trireme {

namespace {

constexpr std::int64_t length_bytes = 8, most_header = 100'000'000;  // as in its own reader
constexpr const char* metadata_name = "__metadata__";

struct TypeSize {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array type_sizes = {
    TypeSize{"BOOL", 1},    TypeSize{"U8", 1},      TypeSize{"I8", 1},  TypeSize{"F8_E5M2", 1},
    TypeSize{"F8_E4M3", 1}, TypeSize{"F8_E8M0", 1}, TypeSize{"I16", 2}, TypeSize{"U16", 2},
    TypeSize{"F16", 2},     TypeSize{"BF16", 2},    TypeSize{"I32", 4}, TypeSize{"U32", 4},
    TypeSize{"F32", 4},     TypeSize{"F64", 8},     TypeSize{"I64", 8}, TypeSize{"U64", 8},
    TypeSize{"C64", 8}};

std::int64_t size_of(std::string_view type) {
  const auto found = std::ranges::find(type_sizes, type, &TypeSize::name);
  require(found != type_sizes.end(), "its type '{}' is unknown", escaped(type));
  return found->bytes;
}

std::int64_t product(std::int64_t a, std::int64_t b) {
  require(b == 0 || a <= std::numeric_limits<std::int64_t>::max() / b, "its shape is too large");
  return a * b;
}

SafeTensor tensor_from(const std::string& name, const Json& json, std::int64_t data_begin,
                       std::int64_t data) {
  const JsonFields f{json};
  SafeTensor t;
  t.name = name;
  t.type = f.text("dtype");
  std::int64_t bytes = size_of(t.type);
  for (const auto& n : f.array("shape")) {
    t.shape.push_back(integer(n, "shape"));
    bytes = product(bytes, t.shape.back());
  }
  const auto& offsets = f.array("data_offsets");
  require(offsets.size() == 2, "'data_offsets' is not a pair");
  const auto begin = integer(offsets[0], "data_offsets", 0, data);
  const auto end = integer(offsets[1], "data_offsets", begin, data);
  t.begin = data_begin + begin;
  t.bytes = end - begin;
  require(t.bytes == bytes, "its shape takes {} bytes, but 'data_offsets' spans {}", bytes,
          t.bytes);
  return t;
}

void require_covered(const std::vector<SafeTensor>& tensors, std::int64_t begin, std::int64_t end,
                     std::string_view where) {
  const std::string* before = nullptr;
  for (const auto& t : tensors) {
    require(t.begin >= begin, "{} is damaged: {} and {} overlap", where,
            escaped(before ? *before : ""), escaped(t.name));
    require(t.begin == begin, "{} is damaged: {} bytes before {} belong to no tensor", where,
            t.begin - begin, escaped(t.name));
    begin += t.bytes;
    before = &t.name;
  }
  require(begin == end, "{} is damaged: its last {} bytes belong to no tensor", where, end - begin);
}

std::uint64_t header_size(const PosixFile& file) {
  std::array<std::byte, length_bytes> bytes;
  const auto& path = file.path().string();
  std::string beginning(static_cast<std::size_t>(std::min<std::int64_t>(file.size(), 64)), '\0');
  file.read_at(std::as_writable_bytes(std::span(beginning)), 0);
  require(!is_lfs_pointer(beginning), "{} is {}", path, lfs_pointer_advice);
  require(file.size() >= length_bytes, "{} is damaged: {} bytes are too few for a header", path,
          file.size());
  file.read_at(bytes, 0);
  std::uint64_t n = 0;
  std::memcpy(&n, bytes.data(), sizeof(n));
  require(n <= static_cast<std::uint64_t>(most_header),
          "{} is not a safetensors file: its header would have {} bytes, which is more than 100 MB",
          path, n);
  require(n <= static_cast<std::uint64_t>(file.size() - length_bytes),
          "{} is damaged: it ends within its header of {} bytes", path, n);
  return n;
}

Json json_of(const SafeTensor& t, std::int64_t data_begin) {
  return {{"dtype", t.type},
          {"shape", t.shape},
          {"data_offsets", {t.begin - data_begin, t.begin - data_begin + t.bytes}}};
}

}  // namespace

std::int64_t SafeTensor::count() const {
  std::int64_t n = 1;
  for (const auto extent : shape) n *= extent;
  return n;
}

std::string described(const SafeTensor& t) {
  return fmt::format("{} [{}]", t.type, fmt::join(t.shape, ", "));
}

std::vector<SafeTensor> parse_header(std::string_view text, std::int64_t data_begin,
                                     std::int64_t data, std::string_view where) {
  const auto header = parse_object(text, where);
  std::vector<SafeTensor> tensors;
  for (const auto& [name, json] : header.items()) {
    if (name == metadata_name) continue;
    try {
      tensors.push_back(tensor_from(name, json, data_begin, data));
    } catch (const Error& e) {
      fail("{} is damaged: {}: {}", where, escaped(name), e.what());
    }
  }
  // An empty tensor precedes a tensor that begins at the same byte.
  std::ranges::sort(tensors, {}, [](const SafeTensor& t) { return std::pair(t.begin, t.bytes); });
  require_covered(tensors, data_begin, data_begin + data, where);
  return tensors;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(PosixFile::open(path)) {
  std::string text(header_size(file_), '\0');
  file_.read_at(std::as_writable_bytes(std::span(text)), length_bytes);
  const auto begin = length_bytes + static_cast<std::int64_t>(text.size());
  tensors_ = parse_header(text, begin, file_.size() - begin, path.string());
  const auto header = parse_object(text, path.string());
  const auto metadata = header.find(metadata_name);
  if (metadata == header.end() || !metadata->is_object()) return;
  for (const auto& [key, value] : metadata->items())
    if (value.is_string()) metadata_[key] = value.get<std::string>();
}

std::string SafetensorsFile::metadata(const std::string& key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? std::string() : found->second;
}

void SafetensorsFile::read(const SafeTensor& t, std::int64_t at, std::span<std::byte> out) const {
  const auto n = static_cast<std::int64_t>(out.size());
  require(at >= 0 && n <= t.bytes && at <= t.bytes - n,
          "bytes [{}, {}) are not within the tensor {} {}", at, at + n, escaped(t.name),
          described(t));
  file_.read_at(out, t.begin + at);
}

bool same_elements(const SafetensorsFile& in_a, const SafeTensor& a, const SafetensorsFile& in_b,
                   const SafeTensor& b) {
  if (a.type != b.type || a.shape != b.shape) return false;
  std::vector<std::byte> of_a(1 << 20), of_b(of_a.size());
  for (std::int64_t at = 0; at < a.bytes;) {
    const auto n = static_cast<std::size_t>(
        std::min<std::int64_t>(a.bytes - at, static_cast<std::int64_t>(of_a.size())));
    in_a.read(a, at, std::span(of_a).first(n));
    in_b.read(b, at, std::span(of_b).first(n));
    if (!std::equal(of_a.begin(), of_a.begin() + static_cast<std::ptrdiff_t>(n), of_b.begin()))
      return false;
    at += static_cast<std::int64_t>(n);
  }
  return true;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     std::vector<SafeTensor> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(PosixFile::create(path)) {
  Json header = {{metadata_name, {{"format", "pt"}}}};
  for (const auto& [key, value] : metadata) header[metadata_name][key] = value;
  std::int64_t data = 0;
  for (auto& t : tensors) {
    t.begin = data;
    t.bytes = product(size_of(t.type), t.count());
    header[t.name] = json_of(t, 0);
    data += t.bytes;
  }
  auto text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // elements begin at a multiple of 8
  const std::uint64_t length = text.size();
  file_.write_at(std::as_bytes(std::span(&length, 1)), 0);
  file_.write_at(std::as_bytes(std::span(text)), length_bytes);
  at_ = length_bytes + static_cast<std::int64_t>(length);
  end_ = at_ + data;
}

std::int64_t SafetensorsWriter::header_bound(const SafeTensor& t) {
  // An escaped character takes at most 6 bytes, and each number has at most 20 digits.
  return static_cast<std::int64_t>(6 * t.name.size() + 21 * (t.shape.size() + 2)) + 80;
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  constexpr std::int64_t writeback_bytes = std::int64_t{32} << 20;
  const auto n = static_cast<std::int64_t>(bytes.size());
  require(n <= end_ - at_, "{}: more elements were written than its tensors have",
          file_.path().string());
  file_.write_at(bytes, at_);
  at_ += n;
  if (at_ - written_back_ < writeback_bytes) return;
  file_.start_writeback(written_back_, at_ - written_back_);
  written_back_ = at_;
}

void SafetensorsWriter::finish() {
  require(at_ == end_, "{} lacks {} bytes of its tensors", file_.path().string(), end_ - at_);
  file_.sync();
}

}  // namespace trireme
