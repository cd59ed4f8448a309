#include "lib/corpus/npy.hpp"

#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <string_view>

#include "lib/base/error.hpp"

namespace trireme {

namespace {

// Returns the text after "'name': ", up to one of `ends`.
std::optional<std::string> value_of(std::string_view dictionary, std::string_view name,
                                    std::string_view ends) {
  for (const char quote : {'\'', '"'}) {
    const std::string key = fmt::format("{0}{1}{0}", quote, name);
    auto at = dictionary.find(key);
    if (at == std::string_view::npos) continue;
    at = dictionary.find_first_not_of(" :", at + key.size());
    if (at == std::string_view::npos) return std::nullopt;
    const auto end = dictionary.find_first_of(ends, at);
    return std::string(dictionary.substr(at, end - at));
  }
  return std::nullopt;
}

}  // namespace

NpyHeader read_npy_header(InputFile& file) {
  std::array<std::byte, 12> first{};
  require(file.size() >= 12, "{} is not a .npy file: it is shorter than a header", file.name());
  file.read_at(0, first);
  const auto byte = [&](std::size_t i) { return std::to_integer<std::int64_t>(first[i]); };
  const std::string_view magic(reinterpret_cast<const char*>(first.data()), 6);
  const auto version = byte(6);
  require(magic == "\x93NUMPY" && version >= 1 && version <= 3,
          "{} is not a .npy file of version 1 to 3: give a file that numpy.save wrote",
          file.name());
  const std::int64_t begin = version == 1 ? 10 : 12;
  std::int64_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  require(length <= file.size() - begin, "{} is truncated inside its header: copy it again",
          file.name());
  std::string dictionary(static_cast<std::size_t>(length), '\0');
  file.read_at(begin, std::as_writable_bytes(std::span(dictionary)));

  auto type = value_of(dictionary, "descr", ",}");
  auto shape = value_of(dictionary, "shape", ")");
  const auto order = value_of(dictionary, "fortran_order", ",}");
  require(type && shape && order, "{}: the header of this .npy file is damaged: copy it again",
          file.name());
  NpyHeader header;
  header.data_begin = begin + length;
  std::erase_if(*type, [](char c) { return c == '\'' || c == '"' || c == ' '; });
  header.type = *type;
  const char* end = shape->data() + shape->size();
  require(!shape->empty(), "{}: the header of this .npy file is damaged: copy it again",
          file.name());
  const auto read = std::from_chars(shape->data() + 1, end, header.count);
  require(shape->starts_with('(') && read.ec == std::errc() &&
              std::string_view(read.ptr, end).find_first_not_of(", ") == std::string_view::npos,
          "{} contains an array of shape {}), but must have one dimension: save the array with "
          ".reshape(-1)",
          file.name(), *shape);
  const std::int64_t each = header.type.empty() ? 0 : header.type.back() - '0';
  const std::int64_t held = file.size() - header.data_begin;
  require(each < 1 || each > 8 ||
              (header.count >= 0 && header.count <= held / each && header.count * each == held),
          "{} has {} bytes of numbers, but its header says {} numbers of type {}: copy it again",
          file.name(), held, header.count, header.type);
  return header;
}

}  // namespace trireme
