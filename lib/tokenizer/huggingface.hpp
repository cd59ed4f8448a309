#pragma once
// Creates a Tokenizer from the files of a Hugging Face tokenizer.
#include <memory>
#include <string>
#include <string_view>

#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// Creates a Tokenizer from a spec. Throws Error, naming `where`, if the spec's files are not a
// supported tokenizer.
std::unique_ptr<Tokenizer> huggingface_from_spec(const TokenizerSpec&, std::string_view where);

// Returns the tokenizer.json that TokenizerSpec::bytes contains, the only file that affects token
// ids. If `packed` is damaged, returns `packed` itself.
std::string tokenizer_json_in(const std::string& packed);

}  // namespace trireme
