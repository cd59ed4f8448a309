#pragma once
// Converts a checkpoint's tokenizer to files in a Hugging Face folder, and back.
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "lib/interchange/hf_config.hpp"
#include "lib/tokenizer/hf_files.hpp"
#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// A tokenizer's files, and the ids that begin and end a text.
struct TokenizerFiles {
  HfFiles contents;
  TextIds ids;
  // Further members of generation_config.json, used if `contents` has no such file.
  Json generation = Json::object();
};

// Returns the files of a tokenizer. For kind `bytes`, the result is a tokenizer.json that encodes
// text in the same way: a byte-level BPE without merges whose ids are the byte values. For
// SentencePiece, the result is the model file. For Hugging Face, the result contains the original
// files. `where` is the name of the checkpoint in messages.
TokenizerFiles files_of(const TokenizerSpec&, std::string_view where);

// Reads the tokenizer of a folder: the Hugging Face files if there is a tokenizer.json, otherwise a
// SentencePiece model. If there is neither, the spec's kind is none. `config` is the folder's
// config.json, whose end-of-text ids are used if there is no generation_config.json.
TokenizerSpec tokenizer_of(const std::filesystem::path& folder, const Json& config);

// Returns the folder's generation_config.json as text, for tokenizers that cannot contain this
// file. Missing ids are taken from `config`. Returns an empty string if neither file contains
// relevant members.
std::string generation_of(const std::filesystem::path& folder, const Json& config);
// Adds `generation`, the result of generation_of(), to the files of a checkpoint's tokenizer. Ids
// in `generation` replace the ids in these files.
void add_generation(TokenizerFiles&, const std::string& generation, std::string_view where);
// Returns the generation_config.json to export, or nullopt if `contents` already has one.
std::optional<std::string> generation_file(const TokenizerFiles&);

}  // namespace trireme
