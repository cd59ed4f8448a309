#pragma once
// The files of a Hugging Face tokenizer. Token files and checkpoints carry them packed into one
// text. When a tokenizer of another kind is exported, its files are written here.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.hpp"

namespace trireme {

// Contents of files, by file name.
using HfFiles = std::map<std::string, std::string>;

// Returns the files as one JSON object. Throws Error naming `where` if a file is not UTF-8.
std::string pack(const HfFiles&, std::string_view where);
// Returns the files in `packed`, equal byte for byte to those given to pack(). Throws Error naming
// `where` if `packed` is damaged or a file name is unsafe.
HfFiles unpack(std::string_view packed, std::string_view where);

// The files that assign roles to tokens, in order of precedence.
inline constexpr const char* token_naming_files[] = {"tokenizer_config.json",
                                                     "special_tokens_map.json"};
// Returns the text of the token with role `key`, for example "bos_token". The files write it as
// {"eos_token": "</s>"} or {"eos_token": {"content": "</s>", ...}}. Returns nothing if it is absent
// or null. Throws Error naming `where` if a file is damaged.
std::optional<std::string> token_named(const HfFiles&, const char* key, std::string_view where);

// Returns the ids in eos_token_id of a config.json or generation_config.json. The value may be one
// id, a list of ids or null for none. Throws Error naming `where` if it is invalid.
std::vector<std::int32_t> end_ids_in(const Json& config, std::string_view where);
// Returns bos_token_id of a config.json or generation_config.json, or nothing if it is missing or
// is no id.
std::optional<std::int32_t> begin_id_in(const Json& config);
// Returns its pad_token_id, if it is an id.
std::optional<std::int32_t> pad_id_in(const Json& config);
// Returns the value of eos_token_id for these ids, the inverse of end_ids_in().
Json end_ids(const std::vector<std::int32_t>&);

// Returns the tokenizer.json of a byte-level BPE model without special tokens, which does not split
// text into words. The caller may add further components.
Json byte_level_bpe(const Json& vocabulary, const Json& merges);
// Returns a ByteLevel component that can be used as pre-tokenizer or decoder. It maps between bytes
// and characters and does not split text into words.
Json byte_level();

}  // namespace trireme
