#pragma once
// The command trireme inspect FILE.tokens [--document N]: shows the contents of a token file, or
// which tokens of a document are targets.
#include <cstdint>
#include <filesystem>
#include <optional>

namespace trireme {

// Prints the file's contents. If `document` is given (counted from 0), prints that document and
// marks its targets. Reads all tokens if the file has a separator. Throws Error if the file or
// document cannot be read.
void inspect_tokens(const std::filesystem::path&, std::optional<std::int64_t> document);

}  // namespace trireme
