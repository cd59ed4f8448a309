#pragma once
// Converts parts of the inputs to files of tokens, on the threads of one rank.
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/corpus/parts.hpp"
#include "lib/corpus/tokenize.hpp"

namespace trireme {

// The parts of a job, and the paths of their files.
struct PartJob {
  const TokenizeOptions& options;  // have a tokenizer
  int token_bytes = 2;
  std::vector<ListedFile> inputs{};
  std::vector<InputPart> parts{};
  // Whether InputSegment::first_line is right in all segments.
  bool lines_are_known = false;
  std::vector<std::filesystem::path> files{};
};

// An error, and the index of the part in which it occurred.
struct PartFailure {
  std::size_t part = 0;
  std::string message;
};

// Writes the files of the parts `mine`, which are ascending indexes. Ends early if `stop`, which is
// called before each part, returns true, and within a part if TokenizeOptions::stopped_by has a
// reason. Returns the first failure. Errors name the line of the input even if the line numbers of
// the segments are not known.
std::optional<PartFailure> write_parts(const PartJob&, std::span<const std::size_t> mine,
                                       const std::function<bool()>& stop);

}  // namespace trireme
