// Header of a token file. It is little-endian, and the numbers are byte offsets:
//   0 magic "TRITOKEN"   8 u32 version     12 u32 bytes per token   16 u64 number of tokens
//  24 u64 vocabulary    32 u64 largest id  40 i64 separator or -1   48 u64 number of documents
//  56 u32 has mask      60 u32 tokenizer   64 u64 tokenizer bytes
//  72 u128 payload hash
//  88 u64 chat template bytes; if not 0, the version is at least 2
//  96 u32 kind of the documents: 0 single, 1 pairs (then the version is 3), 2 labeled answers (4)
// 100 f32 smallest weight   104 u64 number of weight ranges; if not 0, the version is 5
// 112 f32 largest weight
// 116 zeros
// 240 u128 hash of bytes [0, 240)
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <string_view>

#include "lib/base/error.hpp"
#include "lib/data/token_file.hpp"

namespace trireme {

namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::string_view magic = "TRITOKEN";
constexpr std::size_t hashed_bytes = 240;
constexpr std::size_t reserved_begin = 116;
constexpr std::uint32_t llmc_magics[] = {20240520, 20240801};

template <class T>
T get(std::span<const std::byte> from, std::size_t offset) {
  T value;
  std::memcpy(&value, from.data() + offset, sizeof value);
  return value;
}

template <class T>
void put(std::span<std::byte> to, std::size_t offset, T value) {
  std::memcpy(to.data() + offset, &value, sizeof value);
}

Hash128 get_hash(std::span<const std::byte> from, std::size_t offset) {
  return {.high = get<std::uint64_t>(from, offset + 8), .low = get<std::uint64_t>(from, offset)};
}

// Returns advice for a file of another format, whose first bytes show what it probably is.
std::string_view advice_for(std::span<const std::byte> first) {
  if (first.size() >= 4) {
    const auto word = get<std::uint32_t>(first, 0);
    for (auto other : llmc_magics) {
      if (word == other)
        return "it is an llm.c file: import it with `trireme tokenize --from llmc`";
    }
  }
  return "make one with `trireme tokenize`, or import ids of other programs with its option --from";
}

void check_fields(const TokenFileHeader& h, std::span<const std::byte> first,
                  const std::string& name) {
  const auto sound = [&](bool holds, std::string_view what) {
    require(holds,
            "{}: the header of this token file is damaged ({}): tokenize again or copy it again",
            name, what);
  };
  const auto tokenizer = get<std::uint32_t>(first, 60);
  const auto mask = get<std::uint32_t>(first, 56);
  const auto separator = get<std::int64_t>(first, 40);
  const auto id_limit = std::int64_t{std::numeric_limits<std::int32_t>::max()};
  sound(h.token_bytes == 2 || h.token_bytes == 4, "a token has neither 2 nor 4 bytes");
  sound(h.count >= 0 && h.documents >= 0 && h.tokenizer_bytes >= 0 && h.chat_bytes >= 0,
        "a size is negative");
  sound(h.vocab >= 1 && h.vocab <= id_limit, "the vocabulary is empty or beyond 2^31");
  sound(h.largest >= 0 && h.largest < h.vocab, "the largest id is not below the vocabulary");
  sound(separator >= -1 && separator < h.vocab, "the separator is not below the vocabulary");
  sound(mask <= 1, "the flag of the mask is neither 0 nor 1");
  sound(tokenizer == 0 || kind_named(name_of(h.tokenizer)) != TokenizerKind::none,
        "the kind of tokenizer is unknown");
  sound((h.tokenizer_bytes > 0) == has_contents(h.tokenizer),
        "kind and size of the tokenizer disagree");
  const auto version = get<std::uint32_t>(first, 8);
  const auto kind = get<std::uint32_t>(first, 96);
  sound(kind <= 2, "the kind of its documents is unknown");
  const bool weighted = version == TokenFileHeader::version_with_weights;
  sound(h.kind != Documents::single || weighted ||
            (h.chat_bytes > 0) == (version == TokenFileHeader::version_with_chat),
        "its version and the size of the chat template disagree");
  sound((version == TokenFileHeader::version_of_pairs) == (h.kind == Documents::pairs) &&
            (version == TokenFileHeader::version_with_labels) == (h.kind == Documents::labeled),
        "its version and the kind of its documents disagree");
  sound(h.kind == Documents::single || (h.has_mask && separator >= 0 && h.documents % 2 == 0),
        "its documents belong together in twos, but it has no mask, no separator or an odd number "
        "of documents");
  sound(h.kind != Documents::labeled || h.documents > 0 || h.count == 0,
        "it contains labeled answers, but does not state their number");
  sound(h.weight_ranges >= 0 && h.weight_ranges <= h.count && weighted == (h.weight_ranges > 0) &&
            (!weighted || h.kind == Documents::single),
        "its version and the number of weights disagree");
  sound(weighted ? least_weight <= h.smallest_weight && h.smallest_weight <= h.largest_weight &&
                       h.largest_weight <= most_weight
                 : h.smallest_weight == 0 && h.largest_weight == 0,
        "the smallest or the largest weight is not possible");
  for (std::size_t i = reserved_begin; i < hashed_bytes; ++i) {
    sound(first[i] == std::byte{0}, "reserved bytes are not zero");
  }
}

}  // namespace

std::array<std::byte, TokenFileHeader::bytes> TokenFileHeader::encoded() const {
  std::array<std::byte, bytes> out{};
  std::memcpy(out.data(), magic.data(), magic.size());
  // The lowest version that fits is written, because older programs can read it.
  put(out, 8,
      kind == Documents::labeled ? version_with_labels
      : kind == Documents::pairs ? version_of_pairs
      : weight_ranges > 0        ? version_with_weights
      : chat_bytes > 0           ? version_with_chat
                                 : version);
  put(out, 12, static_cast<std::uint32_t>(token_bytes));
  put(out, 16, count);
  put(out, 24, vocab);
  put(out, 32, largest);
  put(out, 40, std::int64_t{separator.value_or(-1)});
  put(out, 48, documents);
  put(out, 56, std::uint32_t{has_mask});
  put(out, 60, static_cast<std::uint32_t>(tokenizer));
  put(out, 64, tokenizer_bytes);
  put(out, 72, payload_hash.low);
  put(out, 80, payload_hash.high);
  put(out, 88, chat_bytes);
  put(out, 96, static_cast<std::uint32_t>(kind));
  put(out, 100, smallest_weight);
  put(out, 104, weight_ranges);
  put(out, 112, largest_weight);
  const Hash128 own = hash128(std::span(out).first(hashed_bytes));
  put(out, 240, own.low);
  put(out, 248, own.high);
  return out;
}

bool is_token_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string first(magic.size(), '\0');
  in.read(first.data(), static_cast<std::streamsize>(first.size()));
  return in.gcount() == std::ssize(first) && first == magic;
}

TokenFileHeader TokenFileHeader::decode(std::span<const std::byte> first, std::int64_t size,
                                        const std::filesystem::path& file) {
  const std::string name = file.string();
  const bool ours =
      first.size() >= magic.size() && std::memcmp(first.data(), magic.data(), magic.size()) == 0;
  if (!ours) {
    require(size > 0, "token file {} is empty: copy it again, or make it with `trireme tokenize`",
            name);
    require(first.size() < bytes || get<std::uint64_t>(first, 0) != 0,
            "{} was never finished: its writer was interrupted; delete it and tokenize again",
            name);
    fail("{} is not a Trireme token file: {}", name, advice_for(first));
  }
  require(first.size() >= bytes,
          "{} is truncated: it has {} bytes, fewer than a header; copy or tokenize it again", name,
          size);
  const auto found = get<std::uint32_t>(first, 8);
  require(version <= found && found <= version_with_weights,
          "{} has version {} of the token file format, but this build reads versions {} to {}: "
          "tokenize again with this build",
          name, found, version, version_with_weights);
  const Hash128 stored = get_hash(first, 240);
  require(stored == Hash128{} || stored == hash128(first.first(hashed_bytes)),
          "{}: the header of this token file is damaged (its hash differs): tokenize again or copy "
          "it again",
          name);

  TokenFileHeader h;
  h.token_bytes = get<std::int32_t>(first, 12);
  h.count = get<std::int64_t>(first, 16);
  h.vocab = get<std::int64_t>(first, 24);
  h.largest = get<std::int64_t>(first, 32);
  if (get<std::int64_t>(first, 40) >= 0) h.separator = get<std::int32_t>(first, 40);
  h.documents = get<std::int64_t>(first, 48);
  h.has_mask = get<std::uint32_t>(first, 56) != 0;
  h.tokenizer = static_cast<TokenizerKind>(get<std::uint32_t>(first, 60));
  h.tokenizer_bytes = get<std::int64_t>(first, 64);
  h.payload_hash = get_hash(first, 72);
  h.chat_bytes = get<std::int64_t>(first, 88);
  h.kind = static_cast<Documents>(get<std::uint32_t>(first, 96));
  h.smallest_weight = get<float>(first, 100);
  h.weight_ranges = get<std::int64_t>(first, 104);
  h.largest_weight = get<float>(first, 112);
  check_fields(h, first, name);

  // Each size is bounded before the sizes are added, so that no sum overflows.
  const std::int64_t payload = size - static_cast<std::int64_t>(bytes);
  const bool fits = h.count <= payload / h.token_bytes && h.tokenizer_bytes <= payload &&
                    h.chat_bytes <= payload && h.label_bytes() <= payload &&
                    h.weight_ranges <= payload / static_cast<std::int64_t>(WeightRange::bytes);
  require(fits && h.file_bytes() <= size,
          "{} is truncated: its header says {} tokens of {} bytes, but the file has {} bytes; copy "
          "or tokenize it again",
          name, h.count, h.token_bytes, size);
  require(h.file_bytes() == size,
          "{} has {} bytes more than its header says: copy or tokenize it again", name,
          size - h.file_bytes());
  return h;
}

}  // namespace trireme
