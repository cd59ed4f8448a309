#pragma once
// trireme inspect FILE.tokens [--document N]: what a token file holds, and what is learnt of a
// document.
#include <cstdint>
#include <filesystem>
#include <optional>

namespace trireme {

// Prints the file's contents, or document `document`, from 0, and which of it are targets. Reads
// all tokens where the file has a separator. Throws Error.
void inspect_tokens(const std::filesystem::path&, std::optional<std::int64_t> document);

}  // namespace trireme
