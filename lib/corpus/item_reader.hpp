#pragma once
// Reads the inputs of `trireme tokenize` as items that can be encoded independently.
#include <cstdint>
#include <functional>
#include <optional>

#include "lib/corpus/text_source.hpp"
#include "lib/corpus/tokenize.hpp"

namespace trireme {

// Calls `add_inputs`, which adds files to the source, and passes the items of their text to `emit`.
// An item of labeled answers contains the line that follows it. `line_after` returns the line that
// follows the last item. If it is absent or returns nullopt, the first line of all follows. Returns
// the number of bytes read.
std::int64_t read_items(const TokenizeOptions&, const std::function<void(TextSource&)>& add_inputs,
                        const std::function<void(TextItem)>& emit,
                        const std::function<std::optional<JsonLine>()>& line_after = {});

}  // namespace trireme
