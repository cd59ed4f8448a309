#include "lib/interchange/tokenizer_files.hpp"

#include <sentencepiece_processor.h>

#include "lib/base/error.hpp"
#include "lib/base/git_lfs.hpp"
#include "lib/base/json.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/tokenizer/byte_alphabet.hpp"
#include "lib/tokenizer/hf_files.hpp"
#include "lib/tokenizer/json.hpp"

namespace trireme {

namespace {

constexpr const char *whole = "tokenizer.json", *tokenizer_config = "tokenizer_config.json",
                     *sentencepiece_model = "tokenizer.model",
                     *generation = "generation_config.json";
// Returns the files of the byte tokenizer. Byte 0 ends a text, but its token is not a special
// token, because a text may contain the character that represents byte 0.
TokenizerFiles of_bytes() {
  Json vocabulary = Json::object();
  for (int b = 0; b < 256; ++b)
    vocabulary[token_of_bytes(std::string(1, static_cast<char>(b)))] = b;
  const Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                       {"clean_up_tokenization_spaces", false}};
  const auto tokenizer = byte_level_bpe(vocabulary, Json::array());
  return {{{whole, to_lines(tokenizer)}, {tokenizer_config, to_lines(config)}}, {{}, {0}}};
}

TextIds text_ids(const sentencepiece::SentencePieceProcessor& processor) {
  TextIds ids;
  if (processor.bos_id() >= 0) ids.begin = processor.bos_id();
  if (processor.eos_id() >= 0) ids.ends = {processor.eos_id()};
  return ids;
}

TokenizerFiles of_sentencepiece(const std::string& model, std::string_view where) {
  sentencepiece::SentencePieceProcessor processor;
  const auto status = processor.LoadFromSerializedProto(model);
  require(status.ok(), "{}: its SentencePiece model cannot be read: {}", where, status.ToString());
  log_warning(
      "transformers reads a SentencePiece model as a Llama tokenizer. If the model is not BPE, "
      "normalizes text or adds no space at the start, transformers gives different ids; compare "
      "the ids of some texts");
  Json config = {{"tokenizer_class", "LlamaTokenizer"},
                 {"add_bos_token", false},
                 {"add_eos_token", false},
                 {"legacy", true},
                 {"clean_up_tokenization_spaces", false}};
  const auto name = [&](const char* key, int id) {
    if (id >= 0) config[key] = processor.IdToPiece(id);
  };
  name("bos_token", processor.bos_id());
  name("eos_token", processor.eos_id());
  name("unk_token", processor.unk_id());
  name("pad_token", processor.pad_id());
  return {{{sentencepiece_model, model}, {tokenizer_config, to_lines(config)}},
          text_ids(processor)};
}

// Finds the ids of tokens that a tokenizer's settings name.
class TokenIds {
 public:
  TokenIds(const std::string& tokenizer, std::string_view where)
      : tokenizer_(tokenizer), where_(where) {}

  std::optional<std::int32_t> id_of(const std::optional<std::string>& named) const {
    if (!named) return {};
    const auto& token = *named;
    for (const auto& t : parse_member(tokenizer_, "added_tokens", where_))
      if (t.is_object() && t.value("content", "") == token)
        return id_in(JsonFields{t}.at("id"), "id");
    const auto model = parse_member(tokenizer_, "model", where_);
    if (!model.is_object()) return {};
    const auto vocabulary = model.find("vocab");
    if (vocabulary == model.end() || !vocabulary->contains(token)) return {};
    return id_in(vocabulary->at(token), token);
  }

 private:
  const std::string& tokenizer_;
  std::string_view where_;
};

TokenizerFiles of_huggingface(const std::string& packed, std::string_view where) {
  TokenizerFiles files{unpack(packed, where), {}};
  const auto tokenizer = files.contents.find(whole);
  require(tokenizer != files.contents.end(), "the tokenizer in {} has no {}", where, whole);
  const TokenIds ids(tokenizer->second, where);
  files.ids.begin = ids.id_of(token_named(files.contents, "bos_token", where));
  if (const auto found = files.contents.find(generation); found != files.contents.end()) {
    const auto name = fmt::format("{}: {}", where, generation);
    const auto json = parse_object(found->second, name);
    files.ids.ends = end_ids_in(json, name);
    if (!files.ids.begin) files.ids.begin = begin_id_in(json);
    files.ids.pad = pad_id_in(json);
  }
  const auto end = ids.id_of(token_named(files.contents, "eos_token", where));
  if (files.ids.ends.empty() && end) files.ids.ends = {*end};
  return files;
}

}  // namespace

TokenizerFiles files_of(const TokenizerSpec& t, std::string_view where) {
  switch (t.kind) {
    case TokenizerKind::bytes:
      return of_bytes();
    case TokenizerKind::sentencepiece:
      return of_sentencepiece(t.bytes, where);
    case TokenizerKind::huggingface:
      return of_huggingface(t.bytes, where);
    case TokenizerKind::none:
      return {};
  }
  return {};
}

static std::string read_whole(const std::filesystem::path& path) {
  auto text = read_text(path);
  require(!is_lfs_pointer(text), "{} is {}", path.string(), lfs_pointer_advice);
  return text;
}

static TextIds ids_in(const Json& config, const std::filesystem::path& folder) {
  return {begin_id_in(config), end_ids_in(config, (folder / "config.json").string()),
          pad_id_in(config)};
}

TokenizerSpec tokenizer_of(const std::filesystem::path& folder, const Json& config) {
  if (is_there(folder / whole)) {
    HfFiles files;
    for (const auto name : tokenizer_files)
      if (is_there(folder / name)) files.emplace(name, read_whole(folder / name));
    if (const auto ids = generation_config(ids_in(config, folder)); !ids.empty())
      files.emplace(generation, to_lines(ids));
    return {TokenizerKind::huggingface, pack(files, folder.string())};
  }
  if (is_there(folder / sentencepiece_model))
    return {TokenizerKind::sentencepiece, read_whole(folder / sentencepiece_model)};
  return {};
}

std::string generation_of(const std::filesystem::path& folder, const Json& config) {
  auto json = generation_config(ids_in(config, folder));
  if (const auto path = folder / generation; is_there(path)) {
    const auto own = parse_object(read_whole(path), path.string());
    end_ids_in(own, path.string());
    for (const auto& [key, value] : own.items())
      if (!value.is_null()) json[key] = value;
  }
  return json.empty() ? "" : json.dump();
}

void add_generation(TokenizerFiles& files, const std::string& text, std::string_view where) {
  if (text.empty()) return;
  const auto name = fmt::format("{}: its {}", where, generation);
  files.generation = parse_object(text, name);
  if (const auto begin = begin_id_in(files.generation)) files.ids.begin = begin;
  if (const auto pad = pad_id_in(files.generation)) files.ids.pad = pad;
  if (auto ends = end_ids_in(files.generation, name); !ends.empty())
    files.ids.ends = std::move(ends);
}

std::optional<std::string> generation_file(const TokenizerFiles& files) {
  if (files.contents.contains(generation)) return {};
  auto json = files.generation;
  json.update(generation_config(files.ids));
  return to_lines(json);
}

}  // namespace trireme
