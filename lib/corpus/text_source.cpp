#include "lib/corpus/text_source.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/utf8_bytes.hpp"
#include "lib/corpus/not_text.hpp"

namespace trireme {

namespace {

// Reads the first bytes of a file, and drops a byte order mark. Returns the number of bytes read.
std::int64_t begin_reading(InputFile& file, std::string& text) {
  const auto read = file.append_to(text, byte_order_mark.size());
  if (text == byte_order_mark) text.clear();
  return static_cast<std::int64_t>(read);
}

}  // namespace

void TextSource::add(std::string_view text, TextPiece piece) {
  piece.begin = item_.text.size();
  piece.end = piece.begin + text.size();
  item_.text.append(text);
  item_.pieces.push_back(std::move(piece));
  if (item_.text.size() >= item_bytes) finish();
}

void TextSource::finish() {
  if (!item_.pieces.empty()) emit_(std::exchange(item_, {}));
}

void TextSource::add_text(InputFile& file, Contents contents) {
  std::string pending;
  TextPlace place = file.from_start() ? TextPlace::start : TextPlace::continuation;
  std::size_t most = item_bytes;  // limit for the current item
  if (file.from_start()) bytes_ += begin_reading(file, pending);
  for (bool more = true; more;) {
    // One byte beyond an item shows whether the document continues.
    const std::size_t wanted = most + 1 - pending.size();
    const std::size_t got = file.append_to(pending, wanted);
    bytes_ += static_cast<std::int64_t>(got);
    more = got == wanted;
    if (contents == Contents::checked && place == TextPlace::start)
      require_text(std::string_view(pending).substr(0, checked_beginning), file.name());
    const auto cut = more ? cut_(pending, most) : pending.size();
    if (!cut) {
      require(most < longest_line_,
              "{}: {} MiB of a document have no place where they can be divided without changing "
              "the token ids: split the document",
              file.name(), longest_line_ >> 20);
      most = std::min(2 * most, longest_line_);
      continue;
    }
    TextPiece piece;
    piece.place = std::exchange(place, TextPlace::continuation);
    piece.ends_document = !more && file.to_end();
    piece.file = file.name();
    add(std::string_view(pending).substr(0, *cut), std::move(piece));
    pending.erase(0, *cut);
    most = std::max(item_bytes, pending.size());
  }
}

void TextSource::add_json_lines(InputFile& file, std::int64_t first_line) {
  std::string pending;
  std::int64_t line = first_line;
  if (file.from_start()) bytes_ += begin_reading(file, pending);
  std::size_t fresh = pending.size();  // bytes that have not been searched
  for (bool more = true; more;) {
    const std::size_t got = file.append_to(pending, item_bytes);
    bytes_ += static_cast<std::int64_t>(got);
    more = got == item_bytes;
    fresh += got;
    if (file.from_start() && line == first_line) require_json_lines(pending, file.name());
    const std::size_t begin = pending.size() - std::exchange(fresh, 0);
    const std::size_t last = std::string_view(pending).substr(begin).rfind('\n');
    const std::size_t n = !more ? pending.size() : last == std::string::npos ? 0 : begin + last + 1;
    require(pending.size() - n <= longest_line_,
            "{}:{}: this line of JSON is longer than {} MiB: split the document", file.name(), line,
            longest_line_ >> 20);
    if (n == 0) continue;
    const auto text = std::string_view(pending).substr(0, n);
    TextPiece piece;
    piece.kind = PieceKind::json_lines;
    piece.first_line = line;
    piece.file = file.name();
    line += std::count(text.begin(), text.end(), '\n');
    add(text, std::move(piece));
    pending.erase(0, n);
  }
}

}  // namespace trireme
