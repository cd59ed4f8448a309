#pragma once
// A checkpoint's tokenizer as files in a folder of Hugging Face, and back.
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "lib/data/tokenizer.hpp"
#include "lib/interchange/hf_config.hpp"
#include "lib/tokenizer/hf_files.hpp"

namespace trireme {

struct TokenizerFiles {
  HfFiles contents;
  TextIds ids;
  Json generation = Json::object();  // more of a generation_config.json that is not in contents
};

// Of bytes, a tokenizer.json that encodes alike: byte-level BPE without merges, ids the values of
// bytes. Of SentencePiece the model itself. Of Hugging Face's the files as they came. `where` names
// the checkpoint in messages.
TokenizerFiles files_of(const TokenizerSpec&, std::string_view where);

// Hugging Face's, which is {"tokenizer.json": text, ...} of the files that are there; else
// SentencePiece's model; else none. `config` is the folder's config.json: what it names as the end
// of a text counts where there is no generation_config.json.
TokenizerSpec tokenizer_of(const std::filesystem::path& folder, const Json& config);

// What a tokenizer of another kind has no place for: generation_config.json, with the ids of
// config.json where it has none. Empty: neither says anything.
std::string generation_of(const std::filesystem::path& folder, const Json& config);
// Of a checkpoint that remembers such a text, its ids are the text's.
void add_generation(TokenizerFiles&, const std::string& generation, std::string_view where);
// The generation_config.json of an export; none, where contents have it.
std::optional<std::string> generation_file(const TokenizerFiles&);

}  // namespace trireme
