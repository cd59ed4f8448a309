#include "lib/tokenizer/tokenizer.hpp"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/hash.hpp"
#include "lib/base/hub.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/tokenizer/cut_place.hpp"
#include "lib/tokenizer/huggingface.hpp"
#include "lib/tokenizer/tiktoken.hpp"
#include "lib/tokenizer/utf8.hpp"

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
      require(ids[i] >= 0 && ids[i] < 256, "id {} is not a byte: the ids of bytes are 0 to 255",
              ids[i]);
      text[i] = static_cast<char>(ids[i]);
    }
    return text;
  }
  std::int32_t vocab() const override { return 256; }
  std::optional<std::size_t> text_bytes(std::int32_t) const override { return 1; }
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
    require(
        status.ok() && processor_.GetPieceSize() > 0,
        "{} does not contain a SentencePiece model ({}): give the .model file that spm_train wrote",
        where, status.ok() ? "empty vocabulary" : status.ToString());
    line_end_ = encoded("\n");
  }

  // Encodes a continuation after a line end, and drops the ids of the line end. So the space before
  // a text's first word, and the normalization after a line end, are those of the whole text.
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
  std::optional<std::size_t> text_bytes(std::int32_t id) const override {
    if (processor_.IsUnknown(id) || processor_.IsControl(id)) return std::nullopt;
    if (processor_.IsByte(id)) return 1;
    constexpr std::string_view space = "\xe2\x96\x81";  // U+2581
    return bytes_with(space, processor_.IdToPiece(id));
  }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    const int id = processor_.PieceToId(token);
    if (id < 0 || id >= vocab() || processor_.IdToPiece(id) != token) return std::nullopt;
    return id;
  }
  std::vector<std::string> special_tokens() const override {
    std::vector<std::string> texts;
    for (int id = 0; id < vocab(); ++id)
      if (processor_.IsControl(id) || processor_.IsUnknown(id))
        texts.push_back(processor_.IdToPiece(id));
    return texts;
  }
  std::optional<std::int32_t> separator() const override {
    if (processor_.eos_id() >= 0) return processor_.eos_id();
    if (processor_.bos_id() >= 0) return processor_.bos_id();
    return std::nullopt;
  }
  std::optional<std::int32_t> begin() const override {
    const int id = processor_.bos_id();
    return id < 0 ? std::nullopt : std::optional(id);
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

namespace {

struct Kind {
  TokenizerKind kind;
  std::string_view name;
  bool has_contents;
};

constexpr Kind kinds[] = {{TokenizerKind::none, "none", false},
                          {TokenizerKind::bytes, "bytes", false},
                          {TokenizerKind::sentencepiece, "sentencepiece", true},
                          {TokenizerKind::huggingface, "huggingface", true}};

// Returns the row of a kind. A number that no kind has, as in a damaged file, counts as none.
const Kind& row_of(TokenizerKind kind) {
  const auto* found = std::ranges::find(kinds, kind, &Kind::kind);
  return found == std::end(kinds) ? kinds[0] : *found;
}

}  // namespace

void encode_in_pieces(const Tokenizer& tokenizer, std::string_view text, TextPlace place,
                      std::vector<std::int32_t>& ids) {
  while (!text.empty()) {
    const auto cut = text.size() > piece_bytes ? tokenizer.cut(text, piece_bytes) : std::nullopt;
    const auto n = cut.value_or(text.size());
    tokenizer.encode(text.substr(0, n), std::exchange(place, TextPlace::continuation), ids);
    text.remove_prefix(n);
  }
}

// Each text between marks is encoded as a separate text, like the texts that models were trained
// on.
std::vector<std::size_t> Tokenizer::encode_marked(std::string_view text,
                                                  std::span<const TextSpan> marked,
                                                  std::vector<std::int32_t>& ids) const {
  std::map<std::string_view, std::int32_t> of_text;
  std::map<std::int32_t, std::string_view> tokens;
  for (const auto& mark : marked) {
    const auto token = text.substr(mark.begin, mark.end - mark.begin);
    if (of_text.contains(token)) continue;
    const auto id = id_of(token);
    expect(id.has_value(), "what is marked is a token");
    of_text[token] = *id;
    tokens[*id] = token;
  }
  const auto encode_run = [&](std::string_view run) {
    const auto begin = static_cast<std::ptrdiff_t>(ids.size());
    encode_in_pieces(*this, run, TextPlace::start, ids);
    for (auto id = ids.begin() + begin; id != ids.end(); ++id)
      if (const auto found = tokens.find(*id); found != tokens.end())
        fail(
            "the special token {} is inside a message, where this tokenizer cannot treat it as "
            "plain text: remove it",
            found->second);
  };
  std::vector<std::size_t> places;
  std::size_t at = 0;
  for (const auto& mark : marked) {
    encode_run(text.substr(at, mark.begin - at));
    places.push_back(ids.size());
    ids.push_back(of_text.at(text.substr(mark.begin, mark.end - mark.begin)));
    at = mark.end;
  }
  encode_run(text.substr(at));
  return places;
}

std::string_view name_of(TokenizerKind kind) {
  return row_of(kind).name;
}

TokenizerKind kind_named(std::string_view name) {
  const auto* found = std::ranges::find(kinds, name, &Kind::name);
  return found == std::end(kinds) ? TokenizerKind::none : found->kind;
}

bool has_contents(TokenizerKind kind) {
  return row_of(kind).has_contents;
}

std::string TokenizerSpec::identity() const {
  std::string text(name_of(kind));
  if (has_contents(kind))
    text.append(":").append(
        to_string(hash128(kind == TokenizerKind::huggingface ? tokenizer_json_in(bytes) : bytes)));
  return text;
}

std::optional<std::size_t> Tokenizer::cut(std::string_view text, std::size_t limit) const {
  return cut_place(text, limit);
}

std::unique_ptr<Tokenizer> bytes_tokenizer() {
  return std::make_unique<BytesTokenizer>();
}

std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::filesystem::path& model) {
  return std::make_unique<SentencePieceTokenizer>(read_text(model), model.string());
}

std::unique_ptr<Tokenizer> tokenizer_at(const std::string& path, std::string_view encoding) {
  if (path == "bytes") return bytes_tokenizer();
  if (std::filesystem::is_directory(path)) return huggingface_tokenizer(path);
  require(std::filesystem::exists(path),
          "there is no tokenizer {}: give \"bytes\", a tokenizer.json or its folder, a "
          "SentencePiece .model file or a tiktoken vocabulary file{}",
          path, hub_advice(path));
  const auto file = PosixFile::open(path);
  std::string beginning(static_cast<std::size_t>(std::min<std::int64_t>(file.size(), 1024)), '\0');
  file.read_at(std::as_writable_bytes(std::span(beginning)), 0);
  const auto first = beginning.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && beginning[first] == '{') return huggingface_tokenizer(path);
  if (is_tiktoken(beginning)) return tiktoken_tokenizer(path, encoding);
  return sentencepiece_tokenizer(path);
}

std::vector<std::int32_t> prompt_ids(const Tokenizer& tokenizer, std::string_view text) {
  auto ids = tokenizer.prefix();
  tokenizer.encode(text, TextPlace::start, ids);
  if (ids.empty() && tokenizer.separator()) ids.push_back(*tokenizer.separator());
  return ids;
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerSpec& spec, std::string_view where) {
  require(spec.kind != TokenizerKind::none,
          "{} has no tokenizer, because its tokens were imported as ids: to turn ids into text, "
          "write the token file again with `trireme tokenize --tokenizer`",
          where);
  if (spec.kind == TokenizerKind::bytes) return bytes_tokenizer();
  if (spec.kind == TokenizerKind::huggingface) return huggingface_from_spec(spec, where);
  return std::make_unique<SentencePieceTokenizer>(spec.bytes, where);
}

}  // namespace trireme
