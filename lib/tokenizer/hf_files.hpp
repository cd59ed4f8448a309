#pragma once
// A Hugging Face tokenizer as files: packed into one text, as token files and checkpoints carry
// them, and written where a tokenizer of another kind becomes one.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.hpp"

namespace trireme {

// Texts by file name.
using HfFiles = std::map<std::string, std::string>;

// A JSON object of the texts. Error naming `where` for a text that is not UTF-8.
std::string pack(const HfFiles&, std::string_view where);
// The same back, byte for byte. Error naming `where` for what is no such object.
HfFiles unpack(std::string_view packed, std::string_view where);

// Files that name a tokenizer's tokens; what the first says goes before the second.
inline constexpr const char* token_naming_files[] = {"tokenizer_config.json",
                                                     "special_tokens_map.json"};
// "bos_token" or another token that these files name: {"eos_token": "</s>"} or
// {"eos_token": {"content": "</s>", ...}}. None where they do not, or say null. Error naming
// `where` for a damaged one.
std::optional<std::string> token_named(const HfFiles&, const char* key, std::string_view where);

// eos_token_id of a config.json or generation_config.json: an id that ends a text, or a list of
// them, or null for none. Error naming `where`.
std::vector<std::int32_t> end_ids_in(const Json& config, std::string_view where);
// What stands there for these.
Json end_ids(const std::vector<std::int32_t>&);

// tokenizer.json of a byte-level BPE that does not split text, without special tokens: for others
// to be put in.
Json byte_level_bpe(const Json& vocabulary, const Json& merges);
// A pre-tokenizer or decoder that stands for bytes by characters and does not split text.
Json byte_level();

}  // namespace trireme
