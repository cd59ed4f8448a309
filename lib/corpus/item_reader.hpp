#pragma once
// Reads the inputs of `trireme tokenize` as items that can be encoded independently.
#include <cstdint>
#include <functional>
#include <optional>

#include "lib/corpus/text_source.hpp"
#include "lib/corpus/tokenize.hpp"

namespace trireme {

// Calls `add_inputs`, which adds files to the source, and passes the items of their text to `emit`.
// Returns the number of bytes read. For labeled answers, each item gets the JSON line that follows
// it (TextItem::next). `line_after` returns this line for the last item. If it is absent or returns
// nullopt, the last item gets the first line of the inputs.
std::int64_t read_items(const TokenizeOptions&, const std::function<void(TextSource&)>& add_inputs,
                        const std::function<void(TextItem)>& emit,
                        const std::function<std::optional<JsonLine>()>& line_after = {});

}  // namespace trireme
