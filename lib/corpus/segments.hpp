#pragma once
// Reads the segments of parts (lib/corpus/parts.hpp).
#include <cstdint>
#include <optional>
#include <span>

#include "lib/corpus/parts.hpp"
#include "lib/corpus/text_source.hpp"
#include "lib/corpus/tokenize.hpp"

namespace trireme {

// Returns the last offset, at most `offset` bytes, at which the tokenizer may divide the text of a
// file, or nullopt if none is near. The result depends only on the file and on `offset`, so the
// ends of a segment and of its neighbors agree.
std::optional<std::int64_t> text_place(InputFile&, std::int64_t offset, const Tokenizer&);
// Returns the offset of the first line that begins at or after byte `offset`, or the size of the
// file if there is none. Throws Error if the line before it is longer than longest_line.
std::int64_t line_begin(InputFile&, std::int64_t offset);
// Returns the number of line ends in the bytes [begin, end).
std::int64_t count_line_ends(InputFile&, std::int64_t begin, std::int64_t end);
// Returns the number of line ends in the bytes [begin - 1, end - 1) of a segment. The first line of
// segment i + 1 of a file has the number 2 + the sum over the segments 0 to i.
std::int64_t line_ends_of(const ListedFile&, const InputSegment&);

// Adds a segment to the source. Throws Error if the file is not the one that rank 0 found, or if it
// changes meanwhile.
void add_segment(const TokenizeOptions&, const ListedFile&, const InputSegment&, TextSource&);

// Returns the first line of JSON in a part, or nullopt if all its lines are blank.
std::optional<JsonLine> first_line_of(const Tokenizer&, std::span<const ListedFile>,
                                      const InputPart&);

}  // namespace trireme
