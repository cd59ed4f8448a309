#pragma once
// The tokenizer of a Hugging Face model (lib/tokenizer) as a Tokenizer.
#include <memory>
#include <string>
#include <string_view>

#include "lib/data/tokenizer.hpp"

namespace trireme {

// Throws Error naming `where` when the spec's files are no tokenizer that is supported.
std::unique_ptr<Tokenizer> huggingface_from_spec(const TokenizerSpec&, std::string_view where);

// The tokenizer.json in a spec's bytes, which alone makes ids; all of them when they are damaged.
std::string tokenizer_json_in(const std::string& packed);

}  // namespace trireme
