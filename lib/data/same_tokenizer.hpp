#pragma once
// Tokenizers that come from several places: from token files, and from the model that goes on with
// them.
#include <string_view>

#include "lib/data/tokenizer.hpp"

namespace trireme {

// Do the ids of both mean the same texts? One may have more ids than the other. Kind none, of
// imported ids, is compatible with all. Error for a damaged one, naming whose it is.
bool compatible(const TokenizerSpec& a, std::string_view where_a, const TokenizerSpec& b,
                std::string_view where_b);

// What two compatible ones know together: the one with more ids; of one tokenizer.json with other
// files beside it, all of these, `first` coming first, and every end of a text that one of them
// knows. The chat template is the first's, if it has one.
TokenizerSpec merged(const TokenizerSpec& first, const TokenizerSpec& second);

// With one more id that ends a text (`Tokenizer::ends`): in generation_config.json, where other
// programs look for it. Of Hugging Face's kind alone; others stay as they are.
TokenizerSpec with_end(const TokenizerSpec&, std::int32_t id);

}  // namespace trireme
