#include "lib/data/token_file.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/error.hpp"

namespace trireme {

namespace {

// Widens n tokens and returns the largest. Tokens are read as unsigned, so that an id above 2^31 is
// found, too.
template <class T>
std::uint32_t widen(const std::byte* from, std::span<std::int32_t> to) {
  const auto* tokens = reinterpret_cast<const T*>(from);
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::uint32_t id = tokens[i];
    to[i] = static_cast<std::int32_t>(id);
    largest = std::max(largest, id);
  }
  return largest;
}

// Returns bits [begin, begin + n), the lowest bit of each byte first.
std::vector<bool> bits_of(std::span<const std::byte> raw, std::int64_t begin, std::int64_t n) {
  std::vector<bool> bits(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const auto bit = static_cast<std::size_t>(begin) + i;
    bits[i] = (std::to_integer<unsigned>(raw[bit / 8]) >> (bit % 8) & 1U) != 0;
  }
  return bits;
}

}  // namespace

static std::shared_ptr<const PosixFile> opened(const std::filesystem::path& path) try {
  return std::make_shared<PosixFile>(PosixFile::open(path));
} catch (const Error& e) {
  fail("{} -- make a token file with `trireme tokenize`, or correct the path", e.what());
}

TokenFile::TokenFile(const std::filesystem::path& path) : file_(opened(path)) {
  const auto size = file_->size();
  std::array<std::byte, TokenFileHeader::bytes> first{};
  const auto head = std::span(first).first(
      static_cast<std::size_t>(std::min<std::int64_t>(size, TokenFileHeader::bytes)));
  read_bytes(0, head);
  header_ = TokenFileHeader::decode(head, size, path);
}

void TokenFile::read_bytes(std::int64_t begin, std::span<std::byte> out) const try {
  file_->read_at(out, begin);
} catch (const Error& e) {
  fail("{} -- this token file was complete when it was opened: copy or tokenize it again",
       e.what());
}

void TokenFile::read(std::int64_t begin, std::span<std::int32_t> ids) const {
  expect(begin >= 0 && begin + static_cast<std::int64_t>(ids.size()) <= header_.count,
         "tokens to read lie inside the file");
  std::vector<std::byte> raw(ids.size() * static_cast<std::size_t>(header_.token_bytes));
  read_bytes(static_cast<std::int64_t>(TokenFileHeader::bytes) + begin * header_.token_bytes, raw);
  const std::uint32_t largest = header_.token_bytes == 2 ? widen<std::uint16_t>(raw.data(), ids)
                                                         : widen<std::uint32_t>(raw.data(), ids);
  if (largest <= static_cast<std::uint64_t>(header_.largest)) return;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<std::uint32_t>(ids[i]);
    require(id <= static_cast<std::uint64_t>(header_.largest),
            "{}: token {} has id {}, but its header says that the largest id is {}: the file is "
            "damaged; tokenize again",
            path().string(), begin + static_cast<std::int64_t>(i), id, header_.largest);
  }
}

std::vector<bool> TokenFile::targets(std::int64_t begin, std::int64_t n) const {
  if (!header_.has_mask) return std::vector<bool>(static_cast<std::size_t>(n), true);
  std::vector<std::byte> raw(static_cast<std::size_t>((begin + n + 7) / 8 - begin / 8));
  read_bytes(header_.mask_offset() + begin / 8, raw);
  return bits_of(raw, begin % 8, n);
}

std::vector<bool> TokenFile::labels() const {
  std::vector<std::byte> raw(static_cast<std::size_t>(header_.label_bytes()));
  read_bytes(header_.label_offset(), raw);
  return bits_of(raw, 0, raw.empty() ? 0 : header_.documents / 2);
}

TokenizerSpec TokenFile::tokenizer() const {
  std::string model(static_cast<std::size_t>(header_.tokenizer_bytes), '\0');
  read_bytes(header_.tokenizer_offset(), std::as_writable_bytes(std::span(model)));
  std::string chat(static_cast<std::size_t>(header_.chat_bytes), '\0');
  read_bytes(header_.chat_offset(), std::as_writable_bytes(std::span(chat)));
  return {header_.tokenizer, std::move(model), std::move(chat)};
}

Hash128 TokenFile::hash_of(std::int64_t begin, std::int64_t end) const {
  constexpr std::int64_t most = std::int64_t{1} << 20;
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(most, end - begin)));
  Hasher hasher;
  while (begin < end) {
    const auto block =
        std::span(buffer).first(static_cast<std::size_t>(std::min(most, end - begin)));
    read_bytes(begin, block);
    hasher.update(block);
    begin += static_cast<std::int64_t>(block.size());
  }
  return hasher.digest();
}

Verified TokenFile::verify() const {
  const bool hashed = header_.payload_hash != Hash128{};
  if (hashed) {
    const Hash128 found = hash_of(TokenFileHeader::bytes, header_.file_bytes());
    require(found == header_.payload_hash,
            "{} is damaged: the hash of its contents is {}, but its header says {}; copy or "
            "tokenize it again",
            path().string(), to_string(found), to_string(header_.payload_hash));
  }
  std::vector<std::int32_t> ids(std::size_t{1} << 16);
  std::int32_t largest = 0;
  for (std::int64_t begin = 0; begin < header_.count;) {
    const auto n =
        std::min<std::int64_t>(static_cast<std::int64_t>(ids.size()), header_.count - begin);
    const auto part = std::span(ids).first(static_cast<std::size_t>(n));
    read(begin, part);
    largest = std::max(largest, *std::max_element(part.begin(), part.end()));
    begin += n;
  }
  require(largest == header_.largest,
          "{} is damaged: its largest id is {}, but its header says {}; tokenize again",
          path().string(), largest, header_.largest);
  return hashed ? Verified::hash_and_ids : Verified::ids_only;
}

}  // namespace trireme
