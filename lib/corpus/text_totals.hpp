#pragma once
// Sums over the items of text that were encoded, for the summary and the last checks.
#include <set>
#include <string>

#include "lib/base/json.hpp"
#include "lib/corpus/item_encoder.hpp"
#include "lib/corpus/tokenize.hpp"

namespace trireme {

struct TextTotals {
  TokenizeSummary sum;
  std::set<std::string> roles;  // of messages

  // Adds an item that follows those added before.
  void add(const TokenizeOptions&, EncodedItem&);
  // Adds the totals of items that follow those added before.
  void add(const TextTotals&);
};

// Converts totals to an object, and back. The object may contain bytes that are not UTF-8. Throws
// Error if the object is damaged.
Json to_json(const TextTotals&);
TextTotals totals_of(const Json&);

// Throws Error if nothing can be learned from the tokens of all inputs.
void require_useful(const TokenizeOptions&, const TextTotals&);

}  // namespace trireme
