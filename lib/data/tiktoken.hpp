#pragma once
// Tables of tiktoken, a token in base64 and its rank a line, as files of a Hugging Face tokenizer.
// The table names neither the pattern that splits text nor the special tokens; an encoding does.
#include <string>
#include <string_view>

#include "lib/tokenizer/hf_files.hpp"

namespace trireme {

// Names of known encodings: "gpt2, cl100k, llama3".
std::string tiktoken_encodings();
// Whether a file that begins like this is such a table.
bool is_tiktoken(std::string_view beginning);
// tokenizer.json and tokenizer_config.json. Throws Error naming `where`.
HfFiles tiktoken_files(std::string_view table, std::string_view encoding, const std::string& where);

}  // namespace trireme
