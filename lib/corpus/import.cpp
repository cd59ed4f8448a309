#include "lib/corpus/import.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/corpus/inputs.hpp"
#include "lib/corpus/npy.hpp"

namespace trireme {

namespace {

template <class T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// The integer type in which a program stores ids.
struct IdType {
  std::int64_t bytes;
  std::int64_t (*read)(const std::byte*);
};

template <class T>
constexpr IdType id_type = {sizeof(T),
                            [](const std::byte* from) -> std::int64_t { return get<T>(from); }};

// Returns the type for a type code of a Megatron index. Other codes are floating-point types.
IdType megatron_type(int code, const std::string& file) {
  switch (code) {
    case 1:
      return id_type<std::uint8_t>;
    case 2:
      return id_type<std::int8_t>;
    case 3:
      return id_type<std::int16_t>;
    case 4:
      return id_type<std::int32_t>;
    case 5:
      return id_type<std::int64_t>;
    case 8:
      return id_type<std::uint16_t>;
    default:
      fail("{}: type code {} is not a supported type of ids (supported are 1 to 5 and 8)", file,
           code);
  }
}

IdType npy_type(const std::string& type, const std::string& file) {
  if (type == "<u2") return id_type<std::uint16_t>;
  if (type == "<u4") return id_type<std::uint32_t>;
  if (type == "<i4") return id_type<std::int32_t>;
  if (type == "<i8") return id_type<std::int64_t>;
  fail("{}: the array's type {} is not supported for ids: save it as <u2, <u4, <i4 or <i8", file,
       type);
}

// Copies the ids of input files to the writer, block by block.
class Importer {
 public:
  Importer(const TokenizeOptions& options, std::optional<std::int64_t> vocab, TokenWriter& writer)
      : options_(options),
        separator_(options.separator),
        limit_(vocab.value_or(std::numeric_limits<std::int32_t>::max())),
        writer_(writer) {}

  void add_raw(InputFile& file, IdType type) {
    require(file.size() % type.bytes == 0,
            "{} has {} bytes, which is not a whole number of {}-byte ids", file.name(), file.size(),
            type.bytes);
    add_ids(file, type, 0, file.size() / type.bytes, 0);
    count_separators_ = true;
  }

  void add_npy(InputFile& file) {
    const NpyHeader npy = read_npy_header(file);
    add_ids(file, npy_type(npy.type, file.name()), npy.data_begin, npy.count, 0);
    count_separators_ = true;
  }

  void add_llmc(InputFile& file) {
    constexpr std::int64_t header_bytes = 1024;
    std::array<std::byte, 12> first{};
    require(file.size() >= header_bytes,
            "{} is not an llm.c token file: it is shorter than its header", file.name());
    file.read_at(0, first);
    const auto magic = get<std::int32_t>(first.data());
    const auto version = get<std::int32_t>(first.data() + 4);
    const std::int64_t count = get<std::int32_t>(first.data() + 8);
    const bool gpt2 = magic == 20240520 && version == 1, llama3 = magic == 20240801 && version == 7;
    require(gpt2 || llama3,
            "{} is not a supported llm.c token file: it has magic {}, version {} (supported are "
            "magic 20240520, version 1, and magic 20240801, version 7)",
            file.name(), magic, version);
    const IdType type = gpt2 ? id_type<std::uint16_t> : id_type<std::uint32_t>;
    const std::int64_t held = (file.size() - header_bytes) / type.bytes;
    require(count >= 0 && count == held,
            "{} contains {} ids, but its header says {}: copy it again", file.name(), held, count);
    add_ids(file, type, header_bytes, count, 0);
    count_separators_ = true;
  }

  // An index begins with a magic of 9 bytes, u64 version 1, u8 type, u64 number of sequences and
  // u64 number of document borders. Then follow i32 lengths, i64 byte offsets into the .bin, and
  // i64 borders. The borders are the first sequence of each document, and the end.
  void add_megatron(InputFile& ids, InputFile& index) {
    constexpr std::int64_t header_bytes = 34;
    constexpr char magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
    std::array<std::byte, header_bytes> first{};
    require(index.size() >= header_bytes,
            "{} is not a Megatron index: it is shorter than its header", index.name());
    index.read_at(0, first);
    require(std::memcmp(first.data(), magic, sizeof magic) == 0 &&
                get<std::uint64_t>(first.data() + 9) == 1,
            "{} is not a Megatron index of version 1: give a .bin file with its .idx file in the "
            "same folder",
            index.name());
    const IdType type = megatron_type(std::to_integer<int>(first[17]), index.name());
    const auto sequences = get<std::int64_t>(first.data() + 18);
    const auto borders = get<std::int64_t>(first.data() + 26);
    const std::int64_t room = index.size() - header_bytes;
    require(sequences >= 0 && borders >= 1 && sequences <= room / 12 &&
                borders <= (room - 12 * sequences) / 8,
            "{} is damaged: its header says {} sequences and {} document borders, but the file has "
            "only {} bytes; copy it again",
            index.name(), sequences, borders, index.size());

    const std::int64_t lengths_at = header_bytes, offsets_at = lengths_at + 4 * sequences,
                       borders_at = offsets_at + 8 * sequences;
    // Three regions of one index are read in turn, so each has its own file handle and buffer.
    InputFile offsets(index.name()), ends(index.name());
    std::int64_t border = 1;
    for (std::int64_t s = 0; s < sequences; ++s) {
      const auto length = number<std::int32_t>(index, lengths_at + 4 * s);
      const auto offset = number<std::int64_t>(offsets, offsets_at + 8 * s);
      require(length >= 0 && offset >= 0 && offset % type.bytes == 0 && offset <= ids.size() &&
                  length <= (ids.size() - offset) / type.bytes,
              "{} is damaged: sequence {} ({} ids from byte {}) extends beyond {}. Copy both files "
              "again",
              index.name(), s, length, offset, ids.name());
      add_ids(ids, type, offset, length, offset / type.bytes);
      bool ends_document = false;
      for (; border < borders && number<std::int64_t>(ends, borders_at + 8 * border) == s + 1;
           ++border) {
        ends_document = true;
      }
      if (ends_document) end_document();
    }
  }

  void finish() { flush(); }
  // Returns 0 if the number is unknown.
  std::int64_t documents() const { return count_separators_ ? separators_seen_ : documents_; }

 private:
  template <class T>
  static T number(InputFile& file, std::int64_t offset) {
    std::array<std::byte, sizeof(T)> bytes;
    file.read_at(offset, bytes);
    return get<T>(bytes.data());
  }

  // Adds `count` ids from byte `offset` on. The first of them has the number `first` in the file.
  void add_ids(InputFile& file, IdType type, std::int64_t offset, std::int64_t count,
               std::int64_t first) {
    for (std::int64_t done = 0; done < count;) {
      stop_if_asked(options_);
      const std::int64_t n = std::min(count - done, block_ids), at = offset + done * type.bytes;
      block_.resize(static_cast<std::size_t>(n * type.bytes));
      file.read_at(at, block_);
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t id = type.read(block_.data() + i * type.bytes);
        require(id >= 0 && id < limit_,
                "{}: id {} (at byte {}) is {}, which is not in the vocabulary of {}: "
                "correct --vocab or --from",
                file.name(), first + done + i, at + i * type.bytes, id, limit_);
        separators_seen_ += separator_ && id == *separator_;
        ids_.push_back(static_cast<std::int32_t>(id));
      }
      done += n;
      if (static_cast<std::int64_t>(ids_.size()) >= block_ids) flush();
    }
  }

  void end_document() {
    ++documents_;
    const std::int64_t last = ids_.empty() ? last_ : ids_.back();
    if (separator_ && last != *separator_) ids_.push_back(*separator_);
  }

  void flush() {
    if (ids_.empty()) return;
    PackedTokens packed;
    packed.append(ids_, writer_.token_bytes());
    writer_.append(packed);
    last_ = ids_.back();
    ids_.clear();
  }

  static constexpr std::int64_t block_ids = std::int64_t{1} << 18;

  const TokenizeOptions& options_;
  std::optional<std::int32_t> separator_;
  std::int64_t limit_;
  TokenWriter& writer_;
  std::vector<std::byte> block_;
  std::vector<std::int32_t> ids_;  // not yet written
  std::int64_t last_ = -1;         // last written id
  std::int64_t documents_ = 0, separators_seen_ = 0;
  bool count_separators_ = false;
};

// Returns the .bin file of each pair once. An input may name either file of a pair, or their common
// stem.
std::vector<std::string> megatron_bins(const std::vector<std::string>& inputs) {
  const auto is_stem = [](const std::string& name) {
    return !name.ends_with(".bin") && !name.ends_with(".idx");
  };
  std::vector<std::string> patterns;
  for (const auto& input : inputs) {
    const bool named = std::filesystem::exists(input) || !is_stem(input) ||
                       input.find_first_of("*?[") != std::string::npos;
    patterns.push_back(named ? input : input + ".bin");
  }
  std::vector<std::string> bins;
  for (auto path : expand_inputs(patterns)) {
    if (is_stem(path)) continue;
    path.replace(path.size() - 4, 4, ".bin");
    if (std::find(bins.begin(), bins.end(), path) == bins.end()) bins.push_back(path);
  }
  require(!bins.empty(),
          "no Megatron file is given: give NAME.bin, with NAME.idx in the same folder");
  return bins;
}

}  // namespace

int import_width(InputFormat format) {
  return format == InputFormat::raw_u16 || format == InputFormat::nanogpt ? 2 : 4;
}

std::vector<std::string> input_token_files(const TokenizeOptions& options) {
  const bool megatron = options.format == InputFormat::megatron;
  auto files = megatron ? megatron_bins(options.inputs) : expand_inputs(options.inputs);
  require(std::ranges::find(files, "-") == files.end(),
          "ids cannot be imported from standard input: give files");
  return files;
}

TokenizeSummary import_tokens(const TokenizeOptions& options, std::span<const std::string> files,
                              std::optional<std::int64_t> vocab, TokenWriter& writer) {
  TokenizeSummary sum;
  Importer importer(options, vocab, writer);
  for (const auto& path : files) {
    InputFile file(path);
    ++sum.files;
    sum.bytes += file.size();
    if (options.format == InputFormat::raw_u16 || options.format == InputFormat::nanogpt) {
      importer.add_raw(file, id_type<std::uint16_t>);
    } else if (options.format == InputFormat::raw_u32) {
      importer.add_raw(file, id_type<std::uint32_t>);
    } else if (options.format == InputFormat::npy) {
      importer.add_npy(file);
    } else if (options.format == InputFormat::llmc) {
      importer.add_llmc(file);
    } else {
      InputFile index(path.substr(0, path.size() - 4) + ".idx");
      importer.add_megatron(file, index);
    }
  }
  importer.finish();
  sum.documents = importer.documents();
  return sum;
}

}  // namespace trireme
