#pragma once
// Implements the command `trireme inspect FILE.tokens [--document N]`, which shows the contents of
// a token file, or the targets in one document.
#include <cstdint>
#include <filesystem>
#include <optional>

namespace trireme {

// Prints a summary of the token file. If `document` is given, prints the text of this document
// (counted from 0) instead, and marks its targets. Reads all tokens if the file has a separator.
// Throws Error if the file or the document cannot be read.
void inspect_tokens(const std::filesystem::path&, std::optional<std::int64_t> document);

}  // namespace trireme
