#pragma once
// Text to token ids and back. Token files and checkpoints contain their tokenizer as a
// TokenizerSpec, so a trained model does not need the tokenizer's file.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The numbers are part of the token file's format.
enum class TokenizerKind : std::uint32_t { none = 0, bytes = 1, sentencepiece = 2 };

std::string_view name_of(TokenizerKind);

struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::none;
  std::string bytes;  // sentencepiece: the serialised model; empty for the others

  // "none", "bytes" or "sentencepiece:<XXH3-128 of the model>": equal texts, equal tokenizers.
  std::string identity() const;
  bool operator==(const TokenizerSpec&) const = default;
};

// A text's position in its document. SentencePiece puts a space before the first word of what it
// encodes; a text that continues a document must not get one.
enum class TextPlace : std::uint8_t { start, continuation };

// Encoding and decoding are safe from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text`. Texts cut right after a line end encode to what the whole text
  // does, unless the model has pieces that cross a line end.
  virtual void encode(std::string_view text, TextPlace, std::vector<std::int32_t>& ids) const = 0;
  // Throws Error for an id outside the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  virtual std::int32_t vocab() const = 0;
  // The id written after each document unless the user names another; bytes: 0.
  virtual std::optional<std::int32_t> separator() const = 0;
  virtual const TokenizerSpec& spec() const = 0;

  std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> ids;
    encode(text, TextPlace::start, ids);
    return ids;
  }
};

// One id for each byte, vocabulary 256. Byte 0 does not occur in text, so it separates documents.
std::unique_ptr<Tokenizer> bytes_tokenizer();
// Reads a SentencePiece .model file; throws Error when it is missing or no model.
std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::filesystem::path& model);
// From the spec in a token file or checkpoint (`where`, for messages). Throws Error for kind none
// and for a damaged model.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerSpec&, std::string_view where);

}  // namespace trireme
