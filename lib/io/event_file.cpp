#include "lib/io/event_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>

#include "lib/base/error.hpp"
#include "lib/base/host_name.hpp"

namespace trireme {

namespace {

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t x = i;
    for (int bit = 0; bit < 8; ++bit) x = (x >> 1) ^ ((x & 1) ? 0x82F63B78U : 0U);
    table[i] = x;
  }
  return table;
}();

template <class T>
void put_fixed(std::string& to, T x) {  // little-endian, as this machine
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof x];
  std::memcpy(bytes, &x, sizeof x);
  to.append(bytes, sizeof x);
}

void put_varint(std::string& to, std::uint64_t x) {
  for (; x >= 0x80; x >>= 7) to += static_cast<char>(0x80 | (x & 0x7f));
  to += static_cast<char>(x);
}

// Protobuf's wire types.
enum Wire : std::uint8_t { varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5 };
void put_key(std::string& to, int field, Wire wire) {
  put_varint(to, static_cast<std::uint64_t>(field) << 3 | wire);
}
void put_number(std::string& to, int field, std::int64_t x) {
  put_key(to, field, varint);
  put_varint(to, static_cast<std::uint64_t>(x));
}
void put_bytes(std::string& to, int field, std::string_view x) {
  put_key(to, field, delimited);
  put_varint(to, x.size());
  to += x;
}

// Event.wall_time and Event.step.
std::string event(double time, std::int64_t step) {
  std::string e;
  put_key(e, 1, fixed64);
  put_fixed(e, time);
  put_number(e, 2, step);
  return e;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Readers take files by name, and so by the seconds in it: those of two processes of a run must
// differ.
std::filesystem::path new_file(const std::filesystem::path& folder) {
  make_directory(folder);
  constexpr std::string_view begins = "events.out.tfevents.";
  auto seconds = static_cast<std::int64_t>(now());
  for (const auto& path : entries_of(folder)) {
    const auto name = path.filename().string();
    if (name.starts_with(begins))
      seconds = std::max<std::int64_t>(seconds, std::atoll(name.c_str() + begins.size()) + 1);
  }
  return folder / fmt::format("{}{:010}.{}", begins, seconds, host_name());
}

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  std::uint32_t crc = ~0U;
  for (const char c : data)
    crc = crc_table[(crc ^ static_cast<std::uint8_t>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

static std::uint32_t masked(std::uint32_t crc) {
  return std::rotr(crc, 15) + 0xa282ead8U;
}

std::string tf_record(std::string_view data) {
  std::string r;
  put_fixed(r, static_cast<std::uint64_t>(data.size()));
  put_fixed(r, masked(crc32c(r)));
  r += data;
  put_fixed(r, masked(crc32c(data)));
  return r;
}

std::string version_event(double time) {
  auto e = event(time, 0);
  put_bytes(e, 3, "brain.Event:2");  // Event.file_version
  return e;
}

std::string session_event(double time, std::int64_t step) {
  auto e = event(time, step);
  std::string log;
  put_number(log, 1, 1);  // SessionLog.status: START
  put_bytes(e, 7, log);   // Event.session_log
  return e;
}

std::string scalars_event(double time, std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const auto& s : scalars) {
    std::string value;
    put_bytes(value, 1, s.tag);  // Summary.Value.tag
    put_key(value, 2, fixed32);  // simple_value
    put_fixed(value, static_cast<float>(s.value));
    put_bytes(summary, 1, value);  // Summary.value
  }
  auto e = event(time, step);
  put_bytes(e, 5, summary);  // Event.summary
  return e;
}

std::string text_event(double time, std::int64_t step, std::string_view tag,
                       std::string_view text) {
  std::string plugin, metadata, tensor, value, summary;
  put_bytes(plugin, 1, "text");    // PluginData.plugin_name
  put_bytes(metadata, 1, plugin);  // SummaryMetadata.plugin_data
  put_number(metadata, 4, 2);      // data_class: DATA_CLASS_TENSOR
  put_number(tensor, 1, 7);        // TensorProto.dtype: DT_STRING
  put_bytes(tensor, 2, "");        // tensor_shape: a scalar
  put_bytes(tensor, 8, text);      // string_val
  put_bytes(value, 1, tag);
  put_bytes(value, 8, tensor);    // Summary.Value.tensor
  put_bytes(value, 9, metadata);  // Summary.Value.metadata
  put_bytes(summary, 1, value);
  auto e = event(time, step);
  put_bytes(e, 5, summary);
  return e;
}

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t step)
    : file_(PosixFile::create(new_file(folder))) {
  append(version_event(now()));
  append(session_event(now(), step + 1));
}

void EventFile::append(const std::string& event) {
  const auto record = tf_record(event);
  file_.write_at(std::as_bytes(std::span(record)), end_);
  end_ += static_cast<std::int64_t>(record.size());
}

void EventFile::add(std::int64_t step, std::span<const Scalar> scalars) {
  append(scalars_event(now(), step, scalars));
}

void EventFile::add(std::int64_t step, std::string_view tag, std::string_view text) {
  append(text_event(now(), step, tag, text));
}

}  // namespace trireme
