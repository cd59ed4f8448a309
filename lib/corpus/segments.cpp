#include "lib/corpus/segments.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/utf8_bytes.hpp"
#include "lib/corpus/tokenize_settings.hpp"

namespace trireme {

constexpr std::int64_t block_bytes = std::int64_t{1} << 20;

// Calls use(block, offset) for the bytes [begin, end) until it returns true.
template <class Use>
static void each_block(InputFile& file, std::int64_t begin, std::int64_t end, const Use& use) {
  std::string block;
  for (auto at = begin; at < end; at += block_bytes) {
    block.resize(static_cast<std::size_t>(std::min(block_bytes, end - at)));
    file.read_at(at, std::as_writable_bytes(std::span(block)));
    if (use(block, at)) return;
  }
}

std::int64_t count_line_ends(InputFile& file, std::int64_t begin, std::int64_t end) {
  std::int64_t count = 0;
  each_block(file, begin, end, [&](const std::string& block, std::int64_t) {
    count += std::ranges::count(block, '\n');
    return false;
  });
  return count;
}

std::int64_t line_begin(InputFile& file, std::int64_t offset) {
  const auto size = file.size();
  if (offset <= 0) return 0;
  if (offset >= size) return size;
  // The byte before `offset` ends a line if the line begins at `offset` itself.
  const auto from = offset - 1, most = from + std::int64_t{longest_line} + 1;
  std::int64_t begin = -1;
  each_block(file, from, std::min(size, most), [&](const std::string& block, std::int64_t at) {
    const auto end = block.find('\n');
    if (end != std::string::npos) begin = at + std::int64_t(end) + 1;
    return begin >= 0;
  });
  require(begin >= 0 || size <= most,
          "{}:{}: this line of JSON is longer than {} MiB: split the document", file.name(),
          begin >= 0 ? 0 : count_line_ends(file, 0, from) + 1, longest_line >> 20);
  return begin >= 0 ? begin : size;
}

static void require_stamp(const InputFile& file, const ListedFile& input) {
  if (input.stamp.size < 0) return;  // a stream
  const auto stamp = file.stamp();
  require(stamp.size == input.stamp.size,
          "{} has {} bytes, but had {} bytes when rank 0 listed the inputs: do not change files "
          "while they are tokenized, and give all nodes the same files",
          file.name(), stamp.size, input.stamp.size);
  require(stamp.modified == input.stamp.modified,
          "{} has another modification time than when rank 0 listed the inputs: do not change "
          "files while they are tokenized, and use a shared file system for all nodes",
          file.name());
}

std::int64_t line_ends_of(const ListedFile& input, const InputSegment& s) {
  InputFile file(input.path);
  require_stamp(file, input);
  return count_line_ends(file, std::max<std::int64_t>(s.begin - 1, 0), s.end - 1);
}

std::optional<std::int64_t> text_place(InputFile& file, std::int64_t offset, const Tokenizer& t) {
  constexpr std::int64_t window = std::int64_t{1} << 20, longest_character = 4;
  const auto size = file.size();
  if (offset <= 0) return 0;
  if (offset >= size) return size;
  const auto from = std::max<std::int64_t>(offset - window, 0);
  std::string text(static_cast<std::size_t>(std::min(size, offset + longest_character) - from),
                   '\0');
  file.read_at(from, std::as_writable_bytes(std::span(text)));
  const auto cut = t.cut(text, static_cast<std::size_t>(offset - from));
  // Other tokenizers also cut elsewhere if there is no good place.
  if (!cut || (t.spec().kind != TokenizerKind::huggingface && text[*cut - 1] != '\n')) return {};
  return from + static_cast<std::int64_t>(*cut);
}

// Restricts a file of text to a segment. If there is no place for the end of a segment, the segment
// also has the bytes of the next one, which is then empty.
static void restrict_text(InputFile& file, const InputSegment& s, const Tokenizer& tokenizer) {
  const auto begin = text_place(file, s.begin, tokenizer);
  std::optional<std::int64_t> end;
  for (auto at = s.end; begin && !end; at += s.end - s.begin) end = text_place(file, at, tokenizer);
  file.restrict_to(begin.value_or(s.end), begin ? *end : s.end);
}

// Opens the file of a segment, restricted to the segment.
static std::unique_ptr<InputFile> opened(const ListedFile& input, const InputSegment& s,
                                         const Tokenizer& tokenizer) {
  auto file =
      std::make_unique<InputFile>(input.path, s.is_range ? Packed::as_is : Packed::unpacked);
  require_stamp(*file, input);
  if (s.is_range && input.division == Division::lines)
    file->restrict_to(line_begin(*file, s.begin), line_begin(*file, s.end));
  else if (s.is_range)
    restrict_text(*file, s, tokenizer);
  return file;
}

void add_segment(const TokenizeOptions& options, const ListedFile& input, const InputSegment& s,
                 TextSource& source) {
  const auto file = opened(input, s, *options.tokenizer);
  if (!file->is_empty_range()) add_file(options, *file, source, s.first_line);
  require_stamp(*file, input);
}

// Returns the first line of JSON in a file, or nullopt if all its lines are blank.
static std::optional<JsonLine> first_line_in(InputFile& file, std::int64_t number) {
  std::string text;
  bool at_start = file.from_start();
  for (bool more = true; more;) {
    more = file.append_to(text, item_bytes) == item_bytes;
    if (std::exchange(at_start, false) && text.starts_with(byte_order_mark))
      text.erase(0, byte_order_mark.size());
    while (true) {
      const auto end = text.find('\n');
      if (end == std::string::npos && more) break;
      const auto line = text.substr(0, end);
      if (line.find_first_not_of(" \t\r") != std::string::npos)
        return JsonLine{line, file.name(), number};
      if (end == std::string::npos) break;
      text.erase(0, end + 1);
      ++number;
    }
    require(text.size() <= longest_line,
            "{}:{}: this line of JSON is longer than {} MiB: split the document", file.name(),
            number, longest_line >> 20);
  }
  return {};
}

std::optional<JsonLine> first_line_of(const Tokenizer& tokenizer,
                                      std::span<const ListedFile> inputs, const InputPart& part) {
  for (const auto& s : part.segments)
    if (auto found = first_line_in(*opened(inputs[s.file], s, tokenizer), s.first_line))
      return found;
  return {};
}

}  // namespace trireme
