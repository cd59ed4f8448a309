#pragma once
// Cuts text and JSON lines into items of bounded size to be encoded independently.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/data/inputs.hpp"
#include "lib/data/tokenizer.hpp"

namespace trireme {

// What one thread takes at a time.
inline constexpr std::size_t item_bytes = std::size_t{1} << 18;
// The longest text encoded in one call: SentencePiece's time a byte grows with the length, and it
// needs some hundred times the length in memory, for each thread. Longer documents are cut at a
// line end, else before a space, else between two characters.
inline constexpr std::size_t piece_bytes = std::size_t{1} << 14;
// A line of JSON is parsed whole.
inline constexpr std::size_t longest_line = std::size_t{1} << 25;

// Where to cut `text`, longer than `limit`: a place in [1, limit].
std::size_t cut_place(std::string_view text, std::size_t limit);
// As Tokenizer::cut.
using Cutter = std::function<std::optional<std::size_t>(std::string_view text, std::size_t limit)>;

enum class PieceKind : std::uint8_t { document, json_lines };

struct TextPiece {
  PieceKind kind = PieceKind::document;
  std::size_t begin = 0, end = 0;  // in the item's text
  TextPlace place = TextPlace::start;
  bool ends_document = true;
  std::int64_t first_line = 0;  // json_lines: of this piece in its file, from 1
  std::string file;             // for messages
};

struct TextItem {
  std::string text;
  std::vector<TextPiece> pieces;
};

// Whether a file must look like text, or is taken as it is.
enum class Contents : std::uint8_t { checked, taken };

// Collects pieces of one file after the other into items of about item_bytes.
class TextSource {
 public:
  explicit TextSource(std::function<void(TextItem)> emit, std::size_t longest = longest_line,
                      Cutter cut = cut_place)
      : emit_(std::move(emit)), longest_line_(longest), cut_(std::move(cut)) {}

  // Throws Error where more than the longest line cannot be cut, and for what is no text.
  void add_text(InputFile&, Contents = Contents::taken);
  void add_json_lines(InputFile&);  // throws Error for a line that is longer
  void finish();                    // emits what is left
  std::int64_t bytes() const { return bytes_; }

 private:
  void add(std::string_view text, TextPiece);

  std::function<void(TextItem)> emit_;
  std::size_t longest_line_;
  Cutter cut_;
  TextItem item_;
  std::int64_t bytes_ = 0;
};

}  // namespace trireme
