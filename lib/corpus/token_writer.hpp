#pragma once
// Writes a token file of any length sequentially. The file appears under its name only after
// `finish` has written the header and all data is on the disk (lib/base/draft.hpp).
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/draft.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/data/token_file.hpp"

namespace trireme {

enum class TargetMask : std::uint8_t { absent, present };

// Tokens in the width of the file, ready to be appended to the file.
struct PackedTokens {
  std::vector<std::byte> tokens;  // little-endian u16 or u32
  // Mask with 1 or 0 per token. Empty if the file has no mask.
  std::vector<std::uint8_t> targets;
  // 1 or 0 for each labeled answer. Empty in files of other kinds.
  std::vector<std::uint8_t> labels;
  std::int64_t count = 0;
  std::int64_t largest = 0;

  // Appends ids, converted to `token_bytes` bytes each. Throws Error if an id does not fit. The
  // caller adds the location to the error.
  void append(std::span<const std::int32_t> ids, int token_bytes);
};

// A token file that is being written.
class TokenWriter {
 public:
  // Creates a temporary file. Throws Error if it cannot be created, or if `path` already exists.
  // With `ExistingFile::replaced`, `path` may be an existing token file, but no other file.
  TokenWriter(const std::filesystem::path&, ExistingFile, int token_bytes, TargetMask);

  int token_bytes() const { return header_.token_bytes; }
  std::int64_t count() const { return header_.count; }
  std::int64_t largest() const { return header_.largest; }

  // Appends tokens to the file. Throws Error if a write fails, for example because the disk is
  // full.
  void append(const PackedTokens&);

  // Writes the header and publishes the file under its name. `vocab` must exceed every appended id
  // and the separator. Throws Error if a write fails, or if another file with this name has
  // appeared meanwhile and must not be replaced. If finish() is never called, the destructor
  // removes all files.
  void finish(std::int64_t vocab, std::optional<std::int32_t> separator, std::int64_t documents,
              const TokenizerSpec&, Documents = Documents::single);

 private:
  // A temporary file that is written sequentially.
  struct Part {
    Draft draft;
    PosixFile file;
    std::int64_t size = 0;

    Part(const std::filesystem::path& target, ExistingFile existing, std::string_view kind)
        : draft(target, existing, kind), file(PosixFile::create(draft.path())) {}
    void write(std::span<const std::byte>);
  };

  void write(std::span<const std::byte>);
  void write_mask();

  std::filesystem::path path_;
  ExistingFile existing_;
  std::unique_ptr<Part> part_;
  // File for the mask. It is separate because the mask follows all tokens in the final file.
  std::unique_ptr<Part> mask_part_;
  TokenFileHeader header_;
  Hasher hasher_;
  std::vector<std::byte> mask_;  // bits that are not yet in mask_part_
  std::int64_t mask_bits_ = 0;   // number of bits in mask_
  std::vector<std::byte> labels_;
  std::int64_t label_bits_ = 0;  // number of bits in labels_
};

// Returns the bytes per token for a vocabulary of this size.
constexpr int token_bytes_for(std::int64_t vocab) {
  return vocab <= 65536 ? 2 : 4;
}

}  // namespace trireme
