#pragma once
// Divides the inputs of `trireme tokenize` into parts, and assigns parts to ranks. The division
// depends only on the files, so jobs with different numbers of ranks have the same parts. If a file
// is added, corrected or removed, most parts of the other files stay the same.
//
// A part is a sequence of whole files, or a range of one file. Compressed files are not divided,
// because they can only be unpacked from their start.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/corpus/inputs.hpp"

namespace trireme {

// Where a file may be divided: nowhere, where a line begins, or where the tokenizer may cut a text
// without changing its ids.
enum class Division : std::uint8_t { none, lines, text };

// A file, as rank 0 found it.
struct ListedFile {
  std::string path;
  FileStamp stamp;
  Division division = Division::none;
  bool operator==(const ListedFile&) const = default;
};

// The contribution of one file to a part: the whole file or, if `is_range`, a range of its bytes.
// The reader moves `begin` and `end` of a range to nearby offsets at which the file may be divided
// (lib/corpus/segments.hpp).
struct InputSegment {
  std::size_t file = 0;  // index of the ListedFile
  std::int64_t begin = 0, end = 0;
  // Whether the segment is less than the whole file.
  bool is_range = false;
  // Number of the segment's first line in its file. 1 if it is not known.
  std::int64_t first_line = 1;
};

struct InputPart {
  std::vector<InputSegment> segments;
  std::int64_t bytes = 0;
  // Whether the part is standard input or a pipe. Only rank 0 can read such a part, and only once.
  bool is_stream = false;
};

// Returns the size of the parts, in bytes of input, for inputs of `total` bytes: at least 8 MiB, at
// most 256 MiB, and otherwise a power of two for which there are about 16,384 parts.
std::int64_t part_bytes_for(std::int64_t total);

// Returns the parts in the order of their tokens. A part has at most about `part_bytes` bytes, or
// is one larger file.
std::vector<InputPart> parts_of(std::span<const ListedFile>, std::int64_t part_bytes);

// Returns the rank that converts each part in `missing`, which contains indices of parts. Streams
// belong to rank 0. The other parts are assigned from the largest to the smallest, each to the rank
// with the fewest bytes so far.
std::vector<int> ranks_of(std::span<const InputPart>, std::span<const std::size_t> missing,
                          int ranks);

// Convert the inputs to a text without loss, and back.
std::string text_of(std::span<const ListedFile>);
std::vector<ListedFile> listed_files_of(std::string_view text);

}  // namespace trireme
