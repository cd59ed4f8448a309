#pragma once
// Converts items of text (lib/corpus/text_source.hpp) to tokens, as the options of `trireme
// tokenize` say.
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "lib/corpus/text_source.hpp"
#include "lib/corpus/token_writer.hpp"
#include "lib/corpus/tokenize.hpp"

namespace trireme {

// Returns true if the token file needs a mask, because not all tokens count in the loss.
bool has_mask(const TokenizeOptions&);

// The tokens of an item, and what was found in it.
struct EncodedItem {
  PackedTokens packed;
  std::int64_t documents = 0;
  FoundLines same{}, alike{}, empty{}, left_out{}, untrained{}, left_out_thoughts{}, plain_names{},
      unweighted{};  // as in TokenizeSummary
  std::map<std::string, FoundLines> unread{};
  std::set<std::string> roles{};  // of messages
};

// Returns a function that encodes an item. Several threads may call the function at once. It throws
// Error, naming file and line, if the text is invalid. The options must outlive the function, and
// need a tokenizer. Tokens have `token_bytes` bytes.
std::function<EncodedItem(const TextItem&)> item_encoder(const TokenizeOptions& options,
                                                         int token_bytes);

}  // namespace trireme
