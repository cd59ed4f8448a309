#pragma once
// Converts tiktoken's tables to files of a Hugging Face tokenizer. A table lists tokens in base64
// with their ranks, one per line. The table contains neither the pattern that splits text nor the
// special tokens. Both are built in for each known encoding.
#include <string>
#include <string_view>

#include "lib/tokenizer/hf_files.hpp"

namespace trireme {

// Returns the names of known encodings: "gpt2, cl100k, llama3".
std::string tiktoken_encodings();
// Returns true if a file whose first bytes are `beginning` is a tiktoken table.
bool is_tiktoken(std::string_view beginning);
// Returns a tokenizer.json and a tokenizer_config.json. Throws Error, naming `where`, if the
// encoding is unknown or the table does not match the encoding.
HfFiles tiktoken_files(std::string_view table, std::string_view encoding, const std::string& where);

}  // namespace trireme
