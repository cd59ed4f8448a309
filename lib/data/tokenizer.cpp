#include "lib/data/tokenizer.hpp"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/hash.hpp"

namespace trireme {

namespace {

class BytesTokenizer final : public Tokenizer {
 public:
  using Tokenizer::encode;
  void encode(std::string_view text, TextPlace, std::vector<std::int32_t>& ids) const override {
    const std::size_t n = ids.size();
    ids.resize(n + text.size());
    for (std::size_t i = 0; i < text.size(); ++i) ids[n + i] = static_cast<unsigned char>(text[i]);
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text(ids.size(), '\0');
    for (std::size_t i = 0; i < ids.size(); ++i) {
      require(ids[i] >= 0 && ids[i] < 256, "id {} is not a byte: the vocabulary of bytes is 256",
              ids[i]);
      text[i] = static_cast<char>(ids[i]);
    }
    return text;
  }
  std::int32_t vocab() const override { return 256; }
  std::optional<std::int32_t> separator() const override { return 0; }
  const TokenizerSpec& spec() const override { return spec_; }

 private:
  TokenizerSpec spec_{TokenizerKind::bytes, {}};
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  using Tokenizer::encode;
  SentencePieceTokenizer(std::string model, std::string_view where)
      : spec_{TokenizerKind::sentencepiece, std::move(model)} {
    const auto status = processor_.LoadFromSerializedProto(spec_.bytes);
    require(status.ok() && processor_.GetPieceSize() > 0,
            "{} holds no SentencePiece model ({}): give the .model file that spm_train wrote",
            where, status.ok() ? "empty vocabulary" : status.ToString());
    line_end_ = encoded("\n");
  }

  // A continuation is encoded after a line end, whose ids are then dropped. So the space before a
  // text's first word, and the normalisation after a line end, are those of the whole text.
  void encode(std::string_view text, TextPlace place,
              std::vector<std::int32_t>& ids) const override {
    if (text.empty()) return;
    if (place == TextPlace::continuation) {
      std::string behind_line_end;
      behind_line_end.reserve(text.size() + 1);
      behind_line_end.append("\n").append(text);
      const std::vector<int> all = encoded(behind_line_end);
      const bool separable = all.size() >= line_end_.size() &&
                             std::equal(line_end_.begin(), line_end_.end(), all.begin());
      if (separable) {
        ids.insert(ids.end(), all.begin() + static_cast<std::ptrdiff_t>(line_end_.size()),
                   all.end());
        return;
      }
    }
    const std::vector<int> all = encoded(text);
    ids.insert(ids.end(), all.begin(), all.end());
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    for (auto id : ids) {
      require(id >= 0 && id < vocab(), "id {} is outside the SentencePiece vocabulary of {}", id,
              vocab());
    }
    std::string text;
    const auto status = processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    require(status.ok(), "SentencePiece could not decode {} ids: {}", ids.size(),
            status.ToString());
    return text;
  }

  std::int32_t vocab() const override { return processor_.GetPieceSize(); }
  std::optional<std::int32_t> separator() const override {
    if (processor_.eos_id() >= 0) return processor_.eos_id();
    if (processor_.bos_id() >= 0) return processor_.bos_id();
    return std::nullopt;
  }
  const TokenizerSpec& spec() const override { return spec_; }

 private:
  std::vector<int> encoded(std::string_view text) const {
    std::vector<int> ids;
    const auto status = processor_.Encode(text, &ids);
    require(status.ok(), "SentencePiece could not encode {} bytes of text: {}", text.size(),
            status.ToString());
    return ids;
  }

  TokenizerSpec spec_;
  sentencepiece::SentencePieceProcessor processor_;
  std::vector<int> line_end_;
};

}  // namespace

std::string_view name_of(TokenizerKind kind) {
  switch (kind) {
    case TokenizerKind::bytes:
      return "bytes";
    case TokenizerKind::sentencepiece:
      return "sentencepiece";
    default:
      return "none";
  }
}

std::string TokenizerSpec::identity() const {
  std::string text(name_of(kind));
  if (kind == TokenizerKind::sentencepiece) {
    text.append(":").append(to_string(hash128(bytes)));
  }
  return text;
}

std::unique_ptr<Tokenizer> bytes_tokenizer() {
  return std::make_unique<BytesTokenizer>();
}

std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::filesystem::path& model) {
  std::ifstream in(model, std::ios::binary);
  require(in.is_open() && !std::filesystem::is_directory(model),
          "cannot open SentencePiece model {}: {}; name a .model file, or \"bytes\"",
          model.string(), in.is_open() ? "it is a directory" : std::strerror(errno));
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return std::make_unique<SentencePieceTokenizer>(std::move(bytes), model.string());
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerSpec& spec, std::string_view where) {
  require(spec.kind != TokenizerKind::none,
          "{} carries no tokenizer: its tokens were imported as numbers; import them again with "
          "--tokenizer to turn ids into text",
          where);
  if (spec.kind == TokenizerKind::bytes) return bytes_tokenizer();
  return std::make_unique<SentencePieceTokenizer>(spec.bytes, where);
}

}  // namespace trireme
