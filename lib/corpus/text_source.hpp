#pragma once
// Divides text and JSON lines into items of bounded size, which can be encoded independently.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/corpus/inputs.hpp"
#include "lib/tokenizer/cut_place.hpp"
#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// Approximate size in bytes of the item that a thread encodes at a time.
inline constexpr std::size_t item_bytes = std::size_t{1} << 18;
// Maximum length in bytes of a JSON line. Each line is parsed as a whole.
inline constexpr std::size_t longest_line = std::size_t{1} << 25;

// Function that cuts text like Tokenizer::cut.
using Cutter = std::function<std::optional<std::size_t>(std::string_view text, std::size_t limit)>;

enum class PieceKind : std::uint8_t { document, json_lines };

// Byte range of an item's text: a document, a part of a document, or several JSON lines.
struct TextPiece {
  PieceKind kind = PieceKind::document;
  std::size_t begin = 0, end = 0;
  TextPlace place = TextPlace::start;
  bool ends_document = true;
  // Number of the piece's first line in its file, counted from 1. Used only for json_lines.
  std::int64_t first_line = 0;
  std::string file;
};

// A line of JSON and its place.
struct JsonLine {
  std::string text, file;
  std::int64_t number = 0;
};

// A text to be encoded by one thread, and the pieces that it consists of.
struct TextItem {
  std::string text;
  std::vector<TextPiece> pieces;
  JsonLine next{};  // the line that follows, if FollowingLines adds it
};

// Whether a file must look like text (`checked`) or is accepted without a check (`taken`).
enum class Contents : std::uint8_t { checked, taken };

// Collects pieces of consecutive files into items of about item_bytes and passes them to `emit`.
class TextSource {
 public:
  explicit TextSource(std::function<void(TextItem)> emit, std::size_t longest = longest_line,
                      Cutter cut = cut_place)
      : emit_(std::move(emit)), longest_line_(longest), cut_(std::move(cut)) {}

  // Adds a file that is one document, or the range of it to which the file is restricted. Throws
  // Error if `checked` contents are not text, or if a part as long as `longest` cannot be cut.
  void add_text(InputFile&, Contents = Contents::taken);
  // Adds a file of JSON lines, or the lines of a range to which the file is restricted. The first
  // of them has the number `first_line` in its file. Throws Error if a line is longer than
  // `longest`.
  void add_json_lines(InputFile&, std::int64_t first_line = 1);
  // Emits the last, incomplete item.
  void finish();
  // Returns the number of bytes read.
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
