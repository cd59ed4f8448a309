#pragma once
// Ids as text: whole numbers with spaces between, for models of tokens that were imported without
// a tokenizer.
#include <memory>

#include "lib/data/tokenizer.hpp"

namespace trireme {

// Commas and line ends separate ids, too. Encoding throws Error, naming `where`, for what is no id
// below `vocab`.
std::unique_ptr<Tokenizer> ids_tokenizer(std::int32_t vocab, std::string_view where);

}  // namespace trireme
