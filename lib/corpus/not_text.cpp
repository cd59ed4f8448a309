#include "lib/corpus/not_text.hpp"

#include <algorithm>
#include <cstddef>

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/base/utf8_bytes.hpp"

namespace trireme {

namespace {

using namespace std::string_view_literals;

struct Format {
  std::string_view magic, name, advice;
  std::size_t at = 0;  // byte offset of the magic
};

constexpr std::string_view unpack_first =
    "decompress it first, for example through a pipe with - for standard input";
constexpr std::string_view extract = "extract its text to .txt or .jsonl files first";
constexpr Format formats[] = {
    {"TRITOKEN", "a token file already", "name it in the deck's data.path"},
    {"\x93NUMPY", "a NumPy array", "import its ids with --from npy"},
    {"\x88\xd7\x34\x01"sv, "an llm.c token file", "import it with --from llmc"},
    {"\x01\xd4\x34\x01"sv, "an llm.c token file", "import it with --from llmc"},
    {"MMIDIDX\0\0"sv, "a Megatron index", "import its .bin file with --from megatron"},
    {"\x1f\x8b", "compressed with gzip", unpack_first},
    {"BZh", "compressed with bzip2", unpack_first},
    {"\xfd"
     "7zXZ\0"sv,
     "compressed with xz", unpack_first},
    {"\x28\xb5\x2f\xfd", "compressed with zstd", unpack_first},
    {"7z\xbc\xaf\x27\x1c", "compressed with 7-Zip", unpack_first},
    {"PK\x03\x04", "a zip archive (such as .npz and PyTorch files)", extract},
    {"PAR1", "a Parquet file", extract},
    {"ARROW1", "an Arrow file", extract},
    {"\x89HDF\r\n\x1a\n", "an HDF5 file", extract},
    {"GGUF", "a GGUF model", "give text files instead"},
    {"SQLite format 3\0"sv, "an SQLite database", extract},
    {"%PDF-", "a PDF", extract},
    {"\x89PNG", "an image", "give text files instead"},
    {"\x7f"
     "ELF",
     "a program", "give text files instead"},
    {"ustar", "a tar archive", extract, 257},
    {"\xff\xfe", "UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff", "UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8"},
};

// Returns true for a safetensors file, which begins with a length of eight bytes and JSON.
bool is_safetensors(std::string_view text) {
  return text.size() > 9 && text[6] == '\0' && text[7] == '\0' && text.substr(8, 2) == "{\"";
}

// Numbers of characters and bytes outside ASCII.
struct Counts {
  std::size_t characters = 0;  // valid UTF-8
  std::size_t malformed = 0;   // bytes that are not valid UTF-8
  std::size_t controls = 0;    // malformed bytes, letters in Windows-1252 but not in Latin-1
};
Counts counts_of(std::string_view text) {
  Counts n;
  while (text.size() >= 4) {  // the last character may be cut
    const auto s = first_sequence(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (s.whole) {
      n.characters += s.bytes > 1 ? 1 : 0;
      text.remove_prefix(s.bytes);
      continue;
    }
    ++n.malformed;
    n.controls += first < 0xa0 ? 1 : 0;
    text.remove_prefix(1);
  }
  return n;
}

// Returns the place of the first byte that is not valid UTF-8, such as "line 3, at byte 120".
std::string place_of_malformed(std::string_view text) {
  const auto at = static_cast<std::ptrdiff_t>(well_formed_bytes(text));
  return fmt::format("line {}, at byte {}", 1 + std::count(text.begin(), text.begin() + at, '\n'),
                     at);
}

// Returns true if single bytes outside ASCII occur among ASCII, as accents and umlauts do in
// Latin-1. Two letters of Latin-1 hardly ever form a valid UTF-8 character.
bool is_probably_latin1(std::string_view text, const Counts& n) {
  const bool prints = std::ranges::none_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f';
  });
  return n.malformed > 8 * n.characters && n.malformed * 4 < text.size() && prints;
}

constexpr std::string_view spaces = " \t\r\n";

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [&](auto e) { return name.ends_with(e); });
}

}  // namespace

static void require_no_json_array(std::string_view beginning, const std::string& name) {
  const auto first = beginning.find_first_not_of(spaces);
  require(first == std::string_view::npos || beginning[first] != '[',
          "{0} is a JSON array, but must have one object per line. Convert the file with jq -c "
          "'.[]' {0} > lines.jsonl, and pass lines.jsonl with --from jsonl",
          name);
}

static const Format* format_of(std::string_view beginning) {
  const auto* found = std::ranges::find_if(formats, [&](const Format& f) {
    return beginning.size() >= f.at && beginning.substr(f.at).starts_with(f.magic);
  });
  return found == std::end(formats) ? nullptr : found;
}

void require_json_lines(std::string_view beginning, const std::string& name) {
  if (const auto* f = format_of(beginning))
    fail("{} is {}, not JSON lines: {}", name, f->name, f->advice);
  require_no_json_array(beginning, name);
}

// Returns true if the line is a JSON object. If the line is cut, its beginning must be {"name":
static bool is_json_object(std::string_view line, bool cut) try {
  if (!cut) return parse_json(line).is_object();
  const auto quote = line.find('"'), end = line.find('"', quote + 1);
  return quote != line.npos && end != line.npos && line.find_first_not_of(spaces, 1) == quote &&
         line.substr(std::min(line.find_first_not_of(spaces, end + 1), line.size()))
             .starts_with(':');
} catch (const Error&) {
  return false;
}

// Returns true if the first line is an object and the next line begins like an object.
static bool looks_like_json_lines(std::string_view text) {
  const bool cut = text.size() >= checked_beginning;
  text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size()));
  if (!text.starts_with('{')) return false;
  const auto end = text.find('\n');
  if (!is_json_object(text.substr(0, end), cut && end == text.npos)) return false;
  text.remove_prefix(std::min(end, text.size()));
  const auto next = text.find_first_not_of(spaces);
  return next == text.npos || text[next] == '{';
}

void require_text(std::string_view beginning, const std::string& name) {
  if (const auto* f = format_of(beginning))
    fail("{} is {}, not text: {} (--from text tokenizes the file as it is)", name, f->name,
         f->advice);
  const auto first = std::min(beginning.find_first_not_of(spaces), beginning.size());
  const auto second = std::min(beginning.find_first_not_of(spaces, first + 1), beginning.size());
  const bool json = ends_with_any(name, {".json", ".JSON"});
  const bool objects =
      beginning.substr(first).starts_with('[') && beginning.substr(second).starts_with('{');
  if (json || objects) require_no_json_array(beginning, name);
  require(!json || !beginning.substr(first).starts_with('{'),
          "{} is JSON, not text: --from jsonl reads one object per line, whose text is in the "
          "field that --field names (--from text tokenizes the file as it is)",
          name);
  require(!looks_like_json_lines(beginning),
          "{} is JSON lines, not text: --from jsonl makes a document of each line, whose text is "
          "in the field that --field names (--from text tokenizes the file as it is)",
          name);
  require(
      !ends_with_any(name, {".csv", ".CSV", ".tsv", ".TSV"}),
      "{0} is a table, not text: convert it to JSON lines with python3 -c 'import csv, json, sys; "
      "[print(json.dumps(row)) for row in csv.DictReader(sys.stdin{1})]' < {0} > {0}.jsonl, and "
      "name the text's column with --field (--from text tokenizes the file as it is)",
      name, ends_with_any(name, {".tsv", ".TSV"}) ? ", delimiter=\"\\t\"" : "");
  require(!is_safetensors(beginning), "{} is a safetensors file, not text: give text files instead",
          name);
  constexpr std::string_view ids =
      "Import ids with --from nanogpt, raw-u16, raw-u32, npy, llmc or megatron. --from text "
      "tokenizes the file as it is";
  const auto zero = beginning.find('\0');
  require(zero == std::string_view::npos,
          "{} is not text: its byte {} is zero, as in arrays of numbers. {}", name, zero, ids);
  const auto counts = counts_of(beginning);
  require(!is_probably_latin1(beginning, counts),
          "{0} is not UTF-8 in {2}, but probably {1}: convert it with iconv -f {1} -t UTF-8 {0} > "
          "{0}.utf8 (--from text tokenizes the file as it is)",
          name, counts.controls > 0 ? "WINDOWS-1252" : "ISO-8859-1", place_of_malformed(beginning));
  const std::size_t wrong = counts.malformed;
  require(wrong * 10 < std::max<std::size_t>(beginning.size(), 10),
          "{} is not text: {} of its first {} bytes are not UTF-8, the first in {}. Convert text "
          "in another encoding with iconv. {}",
          name, wrong, beginning.size(), place_of_malformed(beginning), ids);
}

}  // namespace trireme
