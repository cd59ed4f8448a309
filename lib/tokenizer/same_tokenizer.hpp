#pragma once
// Compares and merges tokenizers from several sources, such as token files and a model whose
// training is continued on these files.
#include <string_view>

#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// Returns true if equal ids represent equal texts in both tokenizers. One tokenizer may have more
// ids than the other. The kind `none` (imported ids) is compatible with every tokenizer. Throws
// Error, naming `where_a` or `where_b`, if a tokenizer is damaged.
bool compatible(const TokenizerSpec& a, std::string_view where_a, const TokenizerSpec& b,
                std::string_view where_b);

// Merges two compatible tokenizers. If their tokenizer.json files differ, returns the tokenizer
// with more ids. Otherwise returns the files of both and the end-of-text ids of both. If another
// file differs, the version in `first` is used. The chat template is that of `first` if it has one,
// otherwise that of `second`.
TokenizerSpec merged(const TokenizerSpec& first, const TokenizerSpec& second);

// Returns the spec with `id` added to the ids that end a text (Tokenizer::ends). The id is stored
// in generation_config.json, where other programs look for it. If the tokenizer is not a Hugging
// Face tokenizer, the spec is returned unchanged.
TokenizerSpec with_end(const TokenizerSpec&, std::int32_t id);

}  // namespace trireme
