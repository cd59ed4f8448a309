#pragma once
// Reads the segments of parts (lib/corpus/parts.hpp).
#include <cstdint>
#include <optional>
#include <span>

#include "lib/corpus/parts.hpp"
#include "lib/corpus/text_source.hpp"
#include "lib/corpus/tokenize.hpp"

namespace trireme {

// Returns a place at or shortly before byte `offset` where the tokenizer may cut the text of a
// file, or nullopt if there is none. Whoever asks for the same offset gets the same place.
std::optional<std::int64_t> text_place(InputFile&, std::int64_t offset, const Tokenizer&);
// Returns where the first line begins that begins at or behind byte `offset`, or the size of the
// file if there is none. Throws Error if the line before it is longer than longest_line.
std::int64_t line_begin(InputFile&, std::int64_t offset);
// Returns the number of line ends in the bytes [begin, end).
std::int64_t count_line_ends(InputFile&, std::int64_t begin, std::int64_t end);
// Returns the number of line ends in the bytes of a range, each counted from one byte earlier, so
// that the line that begins at `begin` is not counted. The numbers of all ranges of a file up to
// one of them add up to the number of lines that begin before the next range, minus 1.
std::int64_t line_ends_of(const ListedFile&, const InputSegment&);

// Adds a segment to the source. Throws Error if the file is not the one that rank 0 found, or if it
// changes meanwhile.
void add_segment(const TokenizeOptions&, const ListedFile&, const InputSegment&, TextSource&);

// Returns the first line of JSON in a part, or nullopt if all its lines are blank.
std::optional<JsonLine> first_line_of(const Tokenizer&, std::span<const ListedFile>,
                                      const InputPart&);

}  // namespace trireme
