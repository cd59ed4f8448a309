#pragma once
// A tokenizer that writes ids as whole numbers separated by spaces. It is used for models that were
// trained on tokens imported without a tokenizer.
#include <memory>

#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// Returns the tokenizer. Input ids may be separated by white space or commas. Encoding throws
// Error, naming `where`, if a word is not an id below `vocab` or if there are no ids.
std::unique_ptr<Tokenizer> ids_tokenizer(std::int32_t vocab, std::string_view where);

}  // namespace trireme
