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
void put_fixed(std::string& to, T x) {  // little-endian, like this machine
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof x];
  std::memcpy(bytes, &x, sizeof x);
  to.append(bytes, sizeof x);
}

// A message in protobuf's wire encoding, built field by field.
class Message {
 public:
  Message& number(int field, std::int64_t x) {
    key(field, 0);
    varint(static_cast<std::uint64_t>(x));
    return *this;
  }
  Message& bytes(int field, std::string_view x) {
    key(field, 2);
    varint(x.size());
    text_ += x;
    return *this;
  }
  template <class T>
  Message& fixed(int field, T x) {  // a double or a float
    key(field, sizeof x == 8 ? 1 : 5);
    put_fixed(text_, x);
    return *this;
  }
  operator const std::string&() const { return text_; }
  operator std::string_view() const { return text_; }

 private:
  void key(int field, unsigned wire_type) {
    varint(static_cast<std::uint64_t>(field) << 3 | wire_type);
  }
  void varint(std::uint64_t x) {
    for (; x >= 0x80; x >>= 7) text_ += static_cast<char>(0x80 | (x & 0x7f));
    text_ += static_cast<char>(x);
  }

  std::string text_;
};

// Returns an Event with the fields wall_time and step.
Message event(double time, std::int64_t step) {
  return Message().fixed(1, time).number(2, step);
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Returns the path of a new event file. Readers order files by name, and so by the seconds in the
// name. Two processes of a run must therefore use different seconds.
std::filesystem::path new_file(const std::filesystem::path& folder) {
  make_directory(folder);
  auto seconds = static_cast<std::int64_t>(now());
  for (const auto& path : entries_of(folder)) {
    const auto name = path.filename().string();
    if (name.starts_with(event_file_begin))
      seconds =
          std::max<std::int64_t>(seconds, std::atoll(name.c_str() + event_file_begin.size()) + 1);
  }
  return folder / fmt::format("{}{:010}.{}", event_file_begin, seconds, host_name());
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
  return event(time, 0).bytes(3, "brain.Event:2");  // Event.file_version
}

std::string session_event(double time, std::int64_t step) {
  const auto start = Message().number(1, 1);  // SessionLog.status: START
  return event(time, step).bytes(7, start);   // Event.session_log
}

std::string scalars_event(double time, std::int64_t step, std::span<const Scalar> scalars) {
  Message summary;
  for (const auto& s : scalars)  // Summary.value: tag and simple_value
    summary.bytes(1, Message().bytes(1, s.tag).fixed(2, static_cast<float>(s.value)));
  return event(time, step).bytes(5, summary);  // Event.summary
}

std::string text_event(double time, std::int64_t step, std::string_view tag,
                       std::string_view text) {
  // A TensorProto: DT_STRING, the shape of a scalar, and string_val.
  const auto tensor = Message().number(1, 7).bytes(2, "").bytes(8, text);
  // A SummaryMetadata: plugin_data with its plugin_name, and DATA_CLASS_TENSOR.
  const auto metadata = Message().bytes(1, Message().bytes(1, "text")).number(4, 2);
  const auto value = Message().bytes(1, tag).bytes(8, tensor).bytes(9, metadata);
  return event(time, step).bytes(5, Message().bytes(1, value));
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
