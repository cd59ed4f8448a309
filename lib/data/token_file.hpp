#pragma once
// Files of token ids in Trireme's own format (docs/token_file.md): a header of 256 bytes, the
// tokens, an optional target mask of one bit a token, and the tokenizer and the chat template they
// were made with.
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/hash.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/data/tokenizer.hpp"

namespace trireme {

struct TokenFileHeader {
  static constexpr std::size_t bytes = 256;
  static constexpr std::uint32_t version = 1, version_with_chat = 2, version_of_pairs = 3;

  std::int32_t token_bytes = 2;  // 2 or 4
  std::int64_t count = 0;        // tokens
  std::int64_t vocab = 0;        // every id is below it
  std::int64_t largest = 0;      // largest id that occurs
  std::optional<std::int32_t> separator;
  std::int64_t documents = 0;  // 0: unknown
  bool has_mask = false;
  TokenizerKind tokenizer = TokenizerKind::none;
  std::int64_t tokenizer_bytes = 0;
  std::int64_t chat_bytes = 0;  // of the chat template; 0: there is none
  bool pairs = false;           // of documents: each one chosen, the next one rejected
  Hash128 payload_hash;         // of everything behind the header; zero: not hashed

  std::int64_t mask_bytes() const { return has_mask ? (count + 7) / 8 : 0; }
  std::int64_t mask_offset() const {
    return static_cast<std::int64_t>(bytes) + count * token_bytes;
  }
  std::int64_t tokenizer_offset() const { return mask_offset() + mask_bytes(); }
  std::int64_t chat_offset() const { return tokenizer_offset() + tokenizer_bytes; }
  std::int64_t file_bytes() const { return chat_offset() + chat_bytes; }

  std::array<std::byte, bytes> encoded() const;
  // Reads the first bytes of `file`, which is `file_bytes` long. Throws Error, naming the file and
  // what to do, when they are not a header of a known version that agrees with itself and the size.
  static TokenFileHeader decode(std::span<const std::byte> first_bytes, std::int64_t file_bytes,
                                const std::filesystem::path& file);
};

// Does a file begin as those of this format do? False for one that cannot be read.
bool is_token_file(const std::filesystem::path&);

// What `verify` compared with: files of other writers may have no hash.
enum class Verified : std::uint8_t { hash_and_ids, ids_only };

// A token file open for reading, from any number of threads. Opening reads only the header and the
// file's size. Copies share the descriptor. It is not mapped into memory, so that an I/O error or a
// truncated file is an Error that names the file, and no signal.
class TokenFile {
 public:
  explicit TokenFile(const std::filesystem::path&);

  const std::filesystem::path& path() const { return file_->path(); }
  const TokenFileHeader& header() const { return header_; }
  std::int64_t count() const { return header_.count; }

  // Copies tokens [begin, begin + ids.size()). Throws Error naming file, position and id when one
  // is above the header's largest.
  void read(std::int64_t begin, std::span<std::int32_t> ids) const;
  // Whether tokens [begin, begin + n) count in the loss when they are predicted; all do in files
  // without a mask.
  std::vector<bool> targets(std::int64_t begin, std::int64_t n) const;
  TokenizerSpec tokenizer() const;  // with the chat template

  // Reads the whole file. Throws Error when its hash, an id or the largest id is not what the
  // header says.
  Verified verify() const;
  // Of bytes [begin, end) of the file.
  Hash128 hash_of(std::int64_t begin, std::int64_t end) const;

 private:
  void read_bytes(std::int64_t begin, std::span<std::byte>) const;

  std::shared_ptr<const PosixFile> file_;
  TokenFileHeader header_;
};

}  // namespace trireme
