#pragma once
// Files of token ids in Trireme's own format (docs/token_file.md). A file consists of a header of
// 256 bytes, the tokens, an optional mask with one bit per token, the tokenizer, the chat template,
// the labels of labeled answers, and the weights of documents.
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/hash.hpp"
#include "lib/base/packed_bits.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// The kind of the documents in a token file. In pairs, each chosen document is followed by its
// rejected document. Each labeled answer is followed by a mismatched answer: the same prompt with
// the answer of another one.
enum class Documents : std::uint8_t { single, pairs, labeled };

// Names of a kind of documents for messages: one item, several items, and the option of `trireme
// tokenize` that writes them.
struct DocumentsNames {
  std::string_view one, many, option;
};
constexpr DocumentsNames names_of(Documents d) {
  if (d == Documents::pairs) return {"pair", "preference pairs", "--preference"};
  if (d == Documents::labeled) return {"labeled answer", "labeled answers", "--labeled"};
  return {"document", "single documents", ""};
}

// Limits of a document's weight. A weight is a float, so it is a multiple of 2^-43.
inline constexpr float least_weight = 0x1p-20F, most_weight = 0x1p16F;
inline constexpr int weight_bits = 43;

// A range of consecutive tokens whose documents have the same weight. It begins where the range
// before it ends.
struct WeightRange {
  static constexpr std::size_t bytes = 12;  // in a file: u64 and f32

  std::int64_t end = 0;  // one past the last token
  float weight = 1;
  bool operator==(const WeightRange&) const = default;
};

// The header of a token file.
struct TokenFileHeader {
  static constexpr std::size_t bytes = 256;
  static constexpr std::uint32_t version = 1, version_with_chat = 2, version_of_pairs = 3,
                                 version_with_labels = 4, version_with_weights = 5;

  std::int32_t token_bytes = 2;  // 2 or 4
  std::int64_t count = 0;        // tokens
  // Upper bound of ids: every id is below this number.
  std::int64_t vocab = 0;
  // Largest id in the file.
  std::int64_t largest = 0;
  std::optional<std::int32_t> separator;
  std::int64_t documents = 0;  // 0 if unknown
  bool has_mask = false;
  TokenizerKind tokenizer = TokenizerKind::none;
  std::int64_t tokenizer_bytes = 0;
  // Size of the chat template. 0 if there is none.
  std::int64_t chat_bytes = 0;
  Documents kind = Documents::single;
  // Number of weight ranges, and the smallest and the largest weight. Without ranges, the file has
  // no weights.
  std::int64_t weight_ranges = 0;
  float smallest_weight = 0, largest_weight = 0;
  // Hash of everything after the header. Zero if the file has no hash.
  Hash128 payload_hash;

  std::int64_t mask_bytes() const { return has_mask ? bytes_of_bits(count) : 0; }
  std::int64_t mask_offset() const {
    return static_cast<std::int64_t>(bytes) + count * token_bytes;
  }
  std::int64_t tokenizer_offset() const { return mask_offset() + mask_bytes(); }
  std::int64_t chat_offset() const { return tokenizer_offset() + tokenizer_bytes; }
  // Labels, one bit for each two documents.
  std::int64_t label_bytes() const {
    return kind == Documents::labeled ? bytes_of_bits(documents / 2) : 0;
  }
  std::int64_t label_offset() const { return chat_offset() + chat_bytes; }
  std::int64_t weight_offset() const { return label_offset() + label_bytes(); }
  std::int64_t weight_bytes() const {
    return weight_ranges * static_cast<std::int64_t>(WeightRange::bytes);
  }
  std::int64_t file_bytes() const { return weight_offset() + weight_bytes(); }

  std::array<std::byte, bytes> encoded() const;
  // Reads a header. `first_bytes` is the beginning of `file`, which is `file_bytes` bytes long.
  // Throws Error, naming the file and what to do, if the version is unknown or the header
  // contradicts itself or the file's size.
  static TokenFileHeader decode(std::span<const std::byte> first_bytes, std::int64_t file_bytes,
                                const std::filesystem::path& file);
};

// Returns true if the file begins like a token file. Returns false if the file cannot be read.
bool is_token_file(const std::filesystem::path&);

// What TokenFile::verify() was able to check. Files written by other programs may have no hash.
enum class Verified : std::uint8_t { hash_and_ids, ids_only };

// A token file that is open for reading. All functions may be called from several threads at once.
// Opening reads only the header. Copies share the file descriptor. The file is not mapped into
// memory, so I/O errors and truncated files cause an Error that names the file instead of a signal.
class TokenFile {
 public:
  explicit TokenFile(const std::filesystem::path&);

  const std::filesystem::path& path() const { return file_->path(); }
  const TokenFileHeader& header() const { return header_; }
  std::int64_t count() const { return header_.count; }

  // Copies tokens [begin, begin + ids.size()). Throws Error, naming file, position and id, if an id
  // exceeds the header's `largest`.
  void read(std::int64_t begin, std::span<std::int32_t> ids) const;
  // Returns, for each of the tokens [begin, begin + n), whether its prediction counts in the loss.
  // Without a mask, all tokens count.
  std::vector<bool> targets(std::int64_t begin, std::int64_t n) const;
  // Returns, for each labeled answer, whether it is desirable. Empty in files of other kinds.
  std::vector<bool> labels() const;
  // Returns the weights of the tokens [begin, begin + n): those of their documents, and 1 in a file
  // without weights. Throws Error, naming the file, if a weight contradicts the header.
  std::vector<float> weights(std::int64_t begin, std::int64_t n) const;
  // Calls f(tokens, weight) for each weight range, in order. Throws Error as weights() does.
  void each_weight(const std::function<void(std::int64_t tokens, float weight)>& f) const;
  // Returns the tokenizer and chat template.
  TokenizerSpec tokenizer() const;

  // Reads the whole file. Throws Error if the hash, the largest id or the weights differ from the
  // header, or if an id exceeds the header's largest id.
  Verified verify() const;
  // Returns the hash of bytes [begin, end) of the file.
  Hash128 hash_of(std::int64_t begin, std::int64_t end) const;
  // Returns a hash of 64 evenly spaced blocks of 1 MiB, or of everything after the header if that
  // is smaller. Copies of this TokenFile compute the hash once.
  const std::string& hash_of_blocks() const;

 private:
  void read_bytes(std::int64_t begin, std::span<std::byte>) const;
  // Reads weight ranges [first, first + n), and checks them.
  std::vector<WeightRange> weight_ranges(std::int64_t first, std::int64_t n) const;

  struct BlocksHash {
    std::once_flag once;
    std::string text;
  };

  std::shared_ptr<const PosixFile> file_;
  std::shared_ptr<BlocksHash> blocks_hash_ = std::make_shared<BlocksHash>();
  TokenFileHeader header_;
};

}  // namespace trireme
