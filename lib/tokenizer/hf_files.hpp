#pragma once
// The files of a Hugging Face tokenizer. Token files and checkpoints contain these files packed
// into one text. Functions here also create files for exported tokenizers of other kinds.
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

// Packs the files into one JSON object. Throws Error, naming `where`, if a file is not UTF-8.
std::string pack(const HfFiles&, std::string_view where);
// Returns the files in `packed`, which equal those given to pack() byte for byte. Throws Error,
// naming `where`, if `packed` is damaged or a file name is unsafe.
HfFiles unpack(std::string_view packed, std::string_view where);

// Files that assign roles to tokens, in order of precedence.
inline constexpr const char* token_naming_files[] = {"tokenizer_config.json",
                                                     "special_tokens_map.json"};
// Returns the text of the token with role `key`, for example "bos_token". The files write it as
// {"eos_token": "</s>"} or {"eos_token": {"content": "</s>", ...}}. Returns nullopt if the token is
// absent or null. Throws Error, naming `where`, if a file is damaged.
std::optional<std::string> token_named(const HfFiles&, const char* key, std::string_view where);

// Returns the ids in eos_token_id of a config.json or generation_config.json. The value may be one
// id, a list of ids, or null for no ids. Throws Error, naming `where`, if the value is invalid.
std::vector<std::int32_t> end_ids_in(const Json& config, std::string_view where);
// Returns bos_token_id of a config.json or generation_config.json, or nullopt if it is missing or
// is not an id.
std::optional<std::int32_t> begin_id_in(const Json& config);
// Returns pad_token_id of a config.json or generation_config.json, or nullopt if it is missing or
// is not an id.
std::optional<std::int32_t> pad_id_in(const Json& config);
// Converts ids to a value for eos_token_id. This is the inverse of end_ids_in().
Json end_ids(const std::vector<std::int32_t>&);

// Returns the tokenizer.json of a byte-level BPE model that has no special tokens and does not
// split text into words. The caller may add further components.
Json byte_level_bpe(const Json& vocabulary, const Json& merges);
// Returns a ByteLevel component that can be used as pre-tokenizer or decoder. It maps between bytes
// and characters and does not split text into words.
Json byte_level();

}  // namespace trireme
