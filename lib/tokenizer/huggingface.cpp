#include "lib/tokenizer/huggingface.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/json.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/tokenizer/hf_files.hpp"
#include "lib/tokenizer/text_pipeline.hpp"
#include "lib/tokenizer/tiktoken.hpp"

namespace trireme {

namespace {

class HuggingFaceTokenizer final : public Tokenizer {
 public:
  using Tokenizer::encode;
  HuggingFaceTokenizer(TokenizerSpec spec, std::string_view where)
      : spec_(std::move(spec)), files_(unpack(spec_.bytes, where)), pipeline_(read(where)) {
    separator_ = read_separator(where);
    if (const auto token = token_named(files_, "bos_token", where))
      begin_ = pipeline_.id_of(*token);
    ends_ = read_ends(where);
  }

  void encode(std::string_view text, TextPlace place,
              std::vector<std::int32_t>& ids) const override {
    pipeline_.encode(text, place == TextPlace::continuation, ids);
  }
  std::optional<std::size_t> cut(std::string_view text, std::size_t limit) const override {
    return pipeline_.cut_place(text, limit);
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    for (const auto id : ids)
      require(id >= 0 && id < vocab(), "id {} is outside the tokenizer's vocabulary of {}", id,
              vocab());
    return pipeline_.decode(ids);
  }
  std::int32_t vocab() const override { return pipeline_.vocab(); }
  std::optional<std::int32_t> separator() const override { return separator_; }
  std::vector<std::int32_t> ends() const override { return ends_; }
  std::optional<std::int32_t> begin() const override { return begin_; }
  const TokenizerSpec& spec() const override { return spec_; }
  std::vector<std::int32_t> prefix() const override { return pipeline_.prefix(); }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    return pipeline_.id_of(token);
  }
  std::vector<std::string> special_tokens() const override { return pipeline_.special_tokens(); }
  std::optional<std::size_t> text_bytes(std::int32_t id) const override {
    return pipeline_.text_bytes(id);
  }
  std::vector<std::size_t> encode_marked(std::string_view text, std::span<const TextSpan> marked,
                                         std::vector<std::int32_t>& ids) const override {
    return pipeline_.encode_marked(text, marked, ids);
  }
  std::optional<std::string> file(std::string_view name) const override {
    const auto found = files_.find(std::string(name));
    return found == files_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  TextPipeline read(std::string_view where) const {
    const auto text = file(tokenizer_files[0]);
    require(text.has_value(), "{} does not contain {}: tokenize again", where, tokenizer_files[0]);
    try {
      return TextPipeline(*text);
    } catch (const Error& e) {
      fail("{}: cannot read the tokenizer file {}: {}", where, tokenizer_files[0], e.what());
    }
  }

  std::optional<std::int32_t> read_separator(std::string_view where) const {
    const auto token = token_named(files_, "eos_token", where);
    if (!token) return std::nullopt;
    const auto id = pipeline_.id_of(*token);
    require(id.has_value(), "{}: its eos_token \"{}\" is not a token of {}", where, escaped(*token),
            tokenizer_files[0]);
    return id;
  }

  std::vector<std::int32_t> read_ends(std::string_view where) const {
    auto ends = Tokenizer::ends();
    const auto text = file("generation_config.json");
    if (!text) return ends;
    const auto name = fmt::format("{}: generation_config.json", where);
    for (const auto id : end_ids_in(parse_object(*text, name), name))
      if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
    return ends;
  }

  TokenizerSpec spec_;
  HfFiles files_;
  TextPipeline pipeline_;
  std::optional<std::int32_t> separator_, begin_;
  std::vector<std::int32_t> ends_;
};

}  // namespace

std::unique_ptr<Tokenizer> huggingface_tokenizer(const std::filesystem::path& given) {
  const bool folder = std::filesystem::is_directory(given);
  const auto place = folder ? given : given.parent_path();
  require(!folder || std::filesystem::exists(place / tokenizer_files[0]),
          "{} does not contain {}: give the folder of a Hugging Face model, or a tokenizer file",
          given.string(), tokenizer_files[0]);
  HfFiles files;
  for (const auto& name : tokenizer_files) {
    const bool first = name == tokenizer_files[0];
    const auto path = first && !folder ? given : place / name;
    if (first || std::filesystem::exists(path)) files.emplace(name, read_text(path));
  }
  return huggingface_from_spec({TokenizerKind::huggingface, pack(files, given.string())},
                               given.string());
}

std::string tokenizer_json_in(const std::string& packed) try {
  return unpack(packed, "").at(std::string(tokenizer_files[0]));
} catch (const std::exception&) {
  return packed;
}

std::unique_ptr<Tokenizer> huggingface_from_spec(const TokenizerSpec& spec,
                                                 std::string_view where) {
  return std::make_unique<HuggingFaceTokenizer>(spec, where);
}

std::unique_ptr<Tokenizer> tiktoken_tokenizer(const std::filesystem::path& table,
                                              std::string_view encoding) {
  const auto where = table.string();
  const auto files = tiktoken_files(read_text(table), encoding, where);
  return huggingface_from_spec({TokenizerKind::huggingface, pack(files, where)}, where);
}

}  // namespace trireme
