#pragma once
// Writes a token file of any length as a stream. The file appears under its name only when
// `finish` has written the header and everything is on the disk (lib/base/draft.hpp).
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

// Do two documents in a row, chosen and rejected, belong together?
enum class Documents : std::uint8_t { single, pairs };

// Tokens of a piece of text, in the file's width, ready to be appended.
struct PackedTokens {
  std::vector<std::byte> tokens;      // little-endian u16 or u32
  std::vector<std::uint8_t> targets;  // 1 or 0 a token when the file has a mask, else empty
  std::int64_t count = 0;
  std::int64_t largest = 0;  // 0 when count is 0

  // Appends ids narrowed to `token_bytes`; throws Error (without a place) for an id that
  // does not fit.
  void append(std::span<const std::int32_t> ids, int token_bytes);
};

class TokenWriter {
 public:
  // Throws Error when the file cannot be created, or what is there stays: what is no token file
  // does so always.
  TokenWriter(const std::filesystem::path&, ExistingFile, int token_bytes, TargetMask);

  int token_bytes() const { return header_.token_bytes; }
  std::int64_t count() const { return header_.count; }
  std::int64_t largest() const { return header_.largest; }

  // Throws Error when the disk is full or fails.
  void append(const PackedTokens&);

  // Publishes the file; without it, the destructor removes everything. `vocab` is above every id
  // appended, `separator` below it. Throws Error when the disk fails, and when another file has got
  // the name meanwhile, which stays.
  void finish(std::int64_t vocab, std::optional<std::int32_t> separator, std::int64_t documents,
              const TokenizerSpec&, Documents = Documents::single);

 private:
  // Written from front to back.
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
  std::unique_ptr<Part> mask_part_;  // the mask follows all the tokens
  TokenFileHeader header_;
  Hasher hasher_;
  std::vector<std::byte> mask_;  // bits not yet in mask_part_
  std::int64_t mask_bits_ = 0;   // in mask_
};

// Bytes a token for a vocabulary.
constexpr int token_bytes_for(std::int64_t vocab) {
  return vocab <= 65536 ? 2 : 4;
}

}  // namespace trireme
