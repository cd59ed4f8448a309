#pragma once
// Makes a Tokenizer out of the files of a Hugging Face model, with lib/tokenizer.
#include <memory>
#include <string>
#include <string_view>

#include "lib/data/tokenizer.hpp"

namespace trireme {

// Throws Error, naming `where`, if the spec's files are not a supported tokenizer.
std::unique_ptr<Tokenizer> huggingface_from_spec(const TokenizerSpec&, std::string_view where);

// Returns the tokenizer.json in a spec's `bytes`, the only file that affects token ids. If `packed`
// is damaged, returns `packed` itself.
std::string tokenizer_json_in(const std::string& packed);

}  // namespace trireme
