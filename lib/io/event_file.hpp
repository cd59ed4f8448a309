#pragma once
// Event files as TensorBoard reads them: a TFRecord for each event, an `Event` message of
// tensorboard/compat/proto/event.proto in protobuf's wire encoding. Four kinds of message are
// written, in fewer lines than protobuf's compiler and its descriptions of them would take.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/posix_file.hpp"

namespace trireme {

// How their names begin.
inline constexpr std::string_view event_file_begin = "events.out.tfevents.";

// CRC-32C (Castagnoli), as in RFC 3720.
std::uint32_t crc32c(std::string_view);
// Length and data, each followed by its masked CRC.
std::string tf_record(std::string_view data);

struct Scalar {
  std::string_view tag;
  double value;  // kept as f32
};

// Messages, whole. `time`: seconds since 1970.
std::string scalars_event(double time, std::int64_t step, std::span<const Scalar>);
std::string text_event(double time, std::int64_t step, std::string_view tag, std::string_view text);
std::string version_event(double time);
// From here on events count from `step` again: readers drop those from that step on that earlier
// files hold.
std::string session_event(double time, std::int64_t step);

// Appends to a file of its own in `folder`, which sorts behind those that are there. Every error is
// an Error.
class EventFile {
 public:
  // The steps that follow come after `step`.
  EventFile(const std::filesystem::path& folder, std::int64_t step);
  void add(std::int64_t step, std::span<const Scalar>);
  void add(std::int64_t step, std::string_view tag, std::string_view text);

 private:
  void append(const std::string& event);

  PosixFile file_;
  std::int64_t end_ = 0;
};

}  // namespace trireme
