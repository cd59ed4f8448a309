#pragma once
// Writes event files for TensorBoard. Each event is a TFRecord that contains an `Event` message of
// tensorboard/compat/proto/event.proto in protobuf's wire encoding. The messages are encoded by
// hand: only four kinds are needed, and generated protobuf classes would be more code.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/posix_file.hpp"

namespace trireme {

// The beginning of an event file's name.
inline constexpr std::string_view event_file_begin = "events.out.tfevents.";

// Computes the CRC-32C (Castagnoli) of RFC 3720.
std::uint32_t crc32c(std::string_view);
// Returns a TFRecord: the length and the data, each followed by its masked CRC.
std::string tf_record(std::string_view data);

// A named number to be plotted.
struct Scalar {
  std::string_view tag;
  // Value of the number. It is stored as f32.
  double value;
};

// Return complete Event messages: with scalars, with a text, and with the version of the format,
// which begins each file. `time` is in seconds since 1970.
std::string scalars_event(double time, std::int64_t step, std::span<const Scalar>);
std::string text_event(double time, std::int64_t step, std::string_view tag, std::string_view text);
std::string version_event(double time);
// Returns an event that says that the run restarts at `step`. Readers then ignore events from this
// step on in earlier files.
std::string session_event(double time, std::int64_t step);

// Appends events to a new file in `folder`. The file's name sorts after the names of existing event
// files. Throws Error if the file cannot be created or written.
class EventFile {
 public:
  // Creates the file. `step` is the last step before the events that will follow.
  EventFile(const std::filesystem::path& folder, std::int64_t step);
  void add(std::int64_t step, std::span<const Scalar>);
  void add(std::int64_t step, std::string_view tag, std::string_view text);

 private:
  void append(const std::string& event);

  PosixFile file_;
  std::int64_t end_ = 0;
};

}  // namespace trireme
