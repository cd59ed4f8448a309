#pragma once
// A Hugging Face tokenizer as files: packed into one text, as token files and checkpoints carry
// them, and written where a tokenizer of another kind becomes one.
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// Texts by file name.
using HfFiles = std::map<std::string, std::string>;

// A JSON object of the texts. Error naming `where` for a text that is not UTF-8.
std::string pack(const HfFiles&, std::string_view where);
// The same back, byte for byte. Error naming `where` for what is no such object.
HfFiles unpack(std::string_view packed, std::string_view where);

// "bos_token" or another token that a tokenizer_config.json names: {"eos_token": "</s>"} or
// {"eos_token": {"content": "</s>", ...}}. None where there is no such name.
std::optional<std::string> token_named(const nlohmann::json& config, const char* key);

// tokenizer.json of a byte-level BPE that does not split text, without special tokens: for others
// to be put in.
nlohmann::json byte_level_bpe(const nlohmann::json& vocabulary, const nlohmann::json& merges);
// A pre-tokenizer or decoder that stands for bytes by characters and does not split text.
nlohmann::json byte_level();

}  // namespace trireme
