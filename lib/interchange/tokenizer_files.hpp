#pragma once
// Converts a checkpoint's tokenizer to files in a Hugging Face folder, and back.
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "lib/data/tokenizer.hpp"
#include "lib/interchange/hf_config.hpp"
#include "lib/tokenizer/hf_files.hpp"

namespace trireme {

// A tokenizer's files, and the ids that begin and end a text.
struct TokenizerFiles {
  HfFiles contents;
  TextIds ids;
  // Further members of generation_config.json, if `contents` has no such file.
  Json generation = Json::object();
};

// Returns the files of a tokenizer. For bytes, this is a tokenizer.json that encodes equally: a
// byte-level BPE without merges, whose ids are the byte values. For SentencePiece, it is the model
// itself. For Hugging Face, it is the original files. `where` names the checkpoint in messages.
TokenizerFiles files_of(const TokenizerSpec&, std::string_view where);

// Reads the tokenizer of a folder: the Hugging Face files if there is a tokenizer.json, otherwise a
// SentencePiece model, otherwise none. `config` is the folder's config.json. Its end-of-text ids
// are used if there is no generation_config.json.
TokenizerSpec tokenizer_of(const std::filesystem::path& folder, const Json& config);

// Returns the folder's generation_config.json as text, for tokenizers that cannot contain this
// file. Ids that it lacks are taken from `config`. Returns an empty string if neither file contains
// anything.
std::string generation_of(const std::filesystem::path& folder, const Json& config);
// Adds the text that generation_of returned to the files of a checkpoint's tokenizer. Its ids
// replace the files' ids.
void add_generation(TokenizerFiles&, const std::string& generation, std::string_view where);
// Returns the generation_config.json to export, or nullopt if `contents` already has one.
std::optional<std::string> generation_file(const TokenizerFiles&);

}  // namespace trireme
