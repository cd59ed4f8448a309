#include "lib/data/not_text.hpp"

#include <algorithm>
#include <cstddef>

#include "lib/base/error.hpp"
#include "lib/tokenizer/utf8.hpp"

namespace trireme {

namespace {

using namespace std::string_view_literals;

struct Format {
  std::string_view magic, name, advice;
  std::size_t at = 0;  // where the magic stands
};

constexpr std::string_view unpack = "unpack it first, as with a pipe and - for standard input";
constexpr std::string_view extract = "write its text into .txt or .jsonl files first";
constexpr Format formats[] = {
    {"TRITOKEN", "a token file already", "name it in the deck's data.path"},
    {"\x93NUMPY", "an array of numpy", "import its ids with --from npy"},
    {"\x88\xd7\x34\x01"sv, "a token file of llm.c", "import it with --from llmc"},
    {"\x01\xd4\x34\x01"sv, "a token file of llm.c", "import it with --from llmc"},
    {"MMIDIDX\0\0"sv, "Megatron's index", "import it with its .bin by --from megatron"},
    {"\x1f\x8b", "packed by gzip", unpack},
    {"BZh", "packed by bzip2", unpack},
    {"\xfd"
     "7zXZ\0"sv,
     "packed by xz", unpack},
    {"\x28\xb5\x2f\xfd", "packed by zstd", unpack},
    {"7z\xbc\xaf\x27\x1c", "packed by 7-Zip", unpack},
    {"PK\x03\x04", "a zip archive (as .npz and PyTorch's files are)", extract},
    {"PAR1", "a Parquet file", extract},
    {"ARROW1", "an Arrow file", extract},
    {"\x89HDF\r\n\x1a\n", "an HDF5 file", extract},
    {"GGUF", "a GGUF model", "name text instead"},
    {"SQLite format 3\0"sv, "an SQLite database", extract},
    {"%PDF-", "a PDF", extract},
    {"\x89PNG", "an image", "name text instead"},
    {"\x7f"
     "ELF",
     "a program", "name text instead"},
    {"ustar", "a tar archive", extract, 257},
    {"\xff\xfe", "UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff", "UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8"},
};

// A length of eight bytes, then JSON.
bool is_safetensors(std::string_view text) {
  return text.size() > 9 && text[6] == '\0' && text[7] == '\0' && text.substr(8, 2) == "{\"";
}

std::size_t malformed_bytes(std::string_view text) {
  std::size_t n = 0;
  for (;;) {
    text.remove_prefix(well_formed_bytes(text));
    if (text.size() < 4) return n;  // the last character may be cut
    ++n;
    text.remove_prefix(1);
  }
}

}  // namespace

void require_text(std::string_view beginning, const std::string& name) {
  for (const auto& format : formats)
    require(beginning.size() < format.at || !beginning.substr(format.at).starts_with(format.magic),
            "{} is {}, not text: {} (--from text takes it as it is)", name, format.name,
            format.advice);
  require(!is_safetensors(beginning), "{} is a safetensors file, not text: name text instead",
          name);
  constexpr std::string_view ids =
      "ids are imported with --from nanogpt, raw-u16, raw-u32, npy, llmc or megatron; --from text "
      "takes the file as it is";
  const auto zero = beginning.find('\0');
  require(zero == std::string_view::npos,
          "{} is not text: its byte {} is zero, as in arrays of numbers; {}", name, zero, ids);
  const std::size_t wrong = malformed_bytes(beginning);
  require(wrong * 10 < std::max<std::size_t>(beginning.size(), 10),
          "{} is not text: {} of its first {} bytes are no UTF-8; convert text of another encoding "
          "with iconv; {}",
          name, wrong, beginning.size(), ids);
}

}  // namespace trireme
