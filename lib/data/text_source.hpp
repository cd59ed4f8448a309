#pragma once
// Cuts text and JSON lines into items of bounded size that can be encoded independently.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/inputs.hpp"
#include "lib/data/tokenizer.hpp"

namespace trireme {

// What is encoded in one go. Longer documents are cut at a line end, else before a space, else
// between two characters; large enough that this is rare, small enough for many threads.
inline constexpr std::size_t piece_bytes = std::size_t{1} << 18;
// A line of JSON is parsed whole.
inline constexpr std::size_t longest_line = std::size_t{1} << 25;

// Where to cut `text`, longer than piece_bytes: a place in [1, piece_bytes].
std::size_t cut_place(std::string_view text);

enum class PieceKind : std::uint8_t { document, json_lines };

struct Piece {
  PieceKind kind = PieceKind::document;
  std::size_t begin = 0, end = 0;  // in the item's text
  TextPlace place = TextPlace::start;
  bool ends_document = true;
  std::int64_t first_line = 0;  // json_lines: of this piece in its file, from 1
  std::string file;             // for messages
};

struct TextItem {
  std::string text;
  std::vector<Piece> pieces;
};

// Gathers pieces of one file after the other into items of about piece_bytes.
class TextSource {
 public:
  explicit TextSource(std::function<void(TextItem)> emit) : emit_(std::move(emit)) {}

  void add_text(InputFile&);
  void add_json_lines(InputFile&);  // throws Error for a line beyond longest_line
  void finish();                    // emits what is left
  std::int64_t bytes() const { return bytes_; }

 private:
  void add(std::string_view text, Piece);

  std::function<void(TextItem)> emit_;
  TextItem item_;
  std::int64_t bytes_ = 0;
};

}  // namespace trireme
