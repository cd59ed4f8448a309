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
#include "lib/base/packed_bits.hpp"
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
  // Weights of the tokens. The end of each range is counted from the first of these tokens. Empty
  // in a file without weights.
  std::vector<WeightRange> weights;
  std::int64_t count = 0;
  std::int64_t largest = 0;

  // Appends ids, converted to `token_bytes` bytes each. Throws Error if an id does not fit. The
  // caller adds the location to the error.
  void append(std::span<const std::int32_t> ids, int token_bytes);
  // Sets the weight of the tokens after the last range.
  void set_weight(float weight);
};

// Throws Error if a token file cannot be written to `path`, or if an existing file there must not
// be replaced.
void require_replaceable(const std::filesystem::path&, ExistingFile);

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
  struct TemporaryFile {
    Draft draft;
    PosixFile file;
    std::int64_t size = 0;

    TemporaryFile(const std::filesystem::path& target, ExistingFile existing, std::string_view kind)
        : draft(target, existing, kind), file(PosixFile::create(draft.path())) {}
    void write(std::span<const std::byte>);
  };

  void write(std::span<const std::byte>);
  void append_file(const TemporaryFile&, std::span<const std::byte> rest);
  // Completes the newest weight range.
  void end_weight();

  std::filesystem::path path_;
  ExistingFile existing_;
  std::unique_ptr<TemporaryFile> file_;
  // File for the mask. It is separate because the mask follows all tokens in the final file.
  std::unique_ptr<TemporaryFile> mask_file_;
  TokenFileHeader header_;
  Hasher hasher_;
  PackedBits mask_;  // bits that are not yet in mask_file_
  PackedBits labels_;
  // File for the weights, for the same reason. Absent until the first of them is written.
  std::unique_ptr<TemporaryFile> weight_file_;
  WeightRange weight_;              // the newest range, which may become longer
  std::vector<std::byte> weights_;  // ranges that are not yet in weight_file_
};

// Returns the bytes per token for a vocabulary of this size.
constexpr int token_bytes_for(std::int64_t vocab) {
  return vocab <= 65536 ? 2 : 4;
}

}  // namespace trireme
