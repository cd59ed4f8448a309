#include "lib/tokenizer/hf_files.hpp"

#include <limits>

#include "lib/base/error.hpp"
#include "lib/base/vendor_text.hpp"
#include "lib/tokenizer/json.hpp"

namespace trireme {

std::string pack(const HfFiles& files, std::string_view where) {
  try {
    return Json(files).dump();
  } catch (const Json::exception& e) {
    fail("{}: a tokenizer file is not UTF-8 text ({}). Copy the file again", where,
         without_tag(e.what()));
  }
}

HfFiles unpack(std::string_view packed, std::string_view where) {
  HfFiles files;
  try {
    files = parse_json(packed).get<HfFiles>();
  } catch (const std::exception& e) {
    fail("{} contains a damaged tokenizer ({}). Tokenize again, or copy the file again", where,
         without_tag(e.what()));
  }
  // The names become paths when the files are written.
  for (const auto& [name, text] : files)
    require(!name.empty() && name.find('/') == std::string::npos && name[0] != '.',
            "{} contains a damaged tokenizer: '{}' is not a plain file name", where, name);
  return files;
}

std::optional<std::string> token_named(const HfFiles& files, const char* key,
                                       std::string_view where) {
  for (const auto* const name : token_naming_files) {
    const auto file = files.find(name);
    if (file == files.end()) continue;
    const auto config = parse_object(file->second, fmt::format("{}: {}", where, name));
    const auto& token = member(config, key);
    const auto& text = token.is_object() ? member(token, "content") : token;
    if (text.is_string()) return text.get<std::string>();
  }
  return std::nullopt;
}

std::vector<std::int32_t> end_ids_in(const Json& config, std::string_view where) {
  constexpr const char* key = "eos_token_id";
  std::vector<std::int32_t> ids;
  const auto& named = member(config, key);
  for (const auto& id : named.is_array() ? named : Json::array({named}))
    if (!id.is_null()) ids.push_back(id_in(id, fmt::format("{} of {}", key, where)));
  return ids;
}

static std::optional<std::int32_t> id_in(const Json& config, const char* name) {
  const auto& id = member(config, name);
  constexpr auto most = std::numeric_limits<std::int32_t>::max();
  if (!id.is_number_integer() || id < 0 || id > most) return std::nullopt;
  return id.get<std::int32_t>();
}

std::optional<std::int32_t> begin_id_in(const Json& config) {
  return id_in(config, "bos_token_id");
}

std::optional<std::int32_t> pad_id_in(const Json& config) {
  return id_in(config, "pad_token_id");
}

Json end_ids(const std::vector<std::int32_t>& ids) {
  if (ids.empty()) return {};
  return ids.size() == 1 ? Json(ids[0]) : Json(ids);
}

Json byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", false},
          {"use_regex", false}};
}

Json byte_level_bpe(const Json& vocabulary, const Json& merges) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level()},
          {"post_processor", nullptr},
          {"decoder", byte_level()},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", vocabulary},
            {"merges", merges}}}};
}

}  // namespace trireme
