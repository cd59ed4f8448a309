#pragma once
// The file starts.json in a run directory. It has one entry for each start of the run and for each
// rollback, with the deck and the state from which training continued. `trireme samples` needs
// these decks, because the rest of the run directory contains only the newest one.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.hpp"

namespace trireme {

inline constexpr std::string_view starts_name = "starts.json";

// The state before the first step after a start of the run, or after a rollback.
struct RunStart {
  std::int64_t step = 0, samples = 0, tokens = 0;
  // Files and shares of the samples (RunExtra::data_phases).
  std::string phases{};
  // Hash of the identities of the token files (RunExtra::token_files).
  std::string token_files{};
  // The effective deck, in TOML.
  std::string deck{};
  bool operator==(const RunStart&) const = default;
};

// The contents of starts.json are invalid.
struct DamagedStarts : Error {
  using Error::Error;
};

// Returns the starts in the file, oldest first, which is also the order of their samples. Returns
// an empty list if there is no file. Throws DamagedStarts if its contents are invalid, and Error if
// it cannot be read.
std::vector<RunStart> read_starts(const std::filesystem::path& run);

// Whether add_start() keeps the starts that are already in the file.
enum class EarlierStarts : std::uint8_t { dropped, kept };
// Adds a start to the file. Removes the starts whose samples the run reads again. If the file is
// damaged, logs a warning, keeps it under another name and begins a new one. Throws Error if the
// file cannot be read or written.
void add_start(const std::filesystem::path& run, const RunStart&, EarlierStarts);

}  // namespace trireme
