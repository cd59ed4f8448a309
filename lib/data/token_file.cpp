#include "lib/data/token_file.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/packed_bits.hpp"

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
  std::vector<std::byte> raw(static_cast<std::size_t>(bytes_of_bits(begin + n) - begin / 8));
  read_bytes(header_.mask_offset() + begin / 8, raw);
  return unpacked_bits<bool>(raw, begin % 8, n);
}

std::vector<bool> TokenFile::labels() const {
  std::vector<std::byte> raw(static_cast<std::size_t>(header_.label_bytes()));
  read_bytes(header_.label_offset(), raw);
  return unpacked_bits<bool>(raw, 0, raw.empty() ? 0 : header_.documents / 2);
}

std::vector<WeightRange> TokenFile::weight_ranges(std::int64_t first, std::int64_t n) const {
  constexpr auto each = static_cast<std::int64_t>(WeightRange::bytes);
  std::vector<std::byte> raw(static_cast<std::size_t>(n * each));
  read_bytes(header_.weight_offset() + first * each, raw);
  std::vector<WeightRange> ranges(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    auto& r = ranges[i];
    std::memcpy(&r.end, raw.data() + i * WeightRange::bytes, sizeof r.end);
    std::memcpy(&r.weight, raw.data() + i * WeightRange::bytes + sizeof r.end, sizeof r.weight);
    const auto number = first + static_cast<std::int64_t>(i);
    const bool last = number + 1 == header_.weight_ranges;
    // Every range has at least one token.
    require(r.end > number && (i == 0 || r.end > ranges[i - 1].end) &&
                (last ? r.end == header_.count : r.end < header_.count) &&
                header_.smallest_weight <= r.weight && r.weight <= header_.largest_weight,
            "{}: weight {} is {} up to token {}, which contradicts the header: the file is "
            "damaged; tokenize again",
            path().string(), number, r.weight, r.end);
  }
  return ranges;
}

std::vector<float> TokenFile::weights(std::int64_t begin, std::int64_t n) const {
  std::vector<float> all;
  if (header_.weight_ranges == 0) all.assign(static_cast<std::size_t>(n), 1);
  // Finds the first range that ends after `begin`. The ranges are not kept in memory, because a
  // file may have very many.
  std::int64_t low = 0, high = header_.weight_ranges;
  while (low < high && n > 0) {
    const auto middle = low + (high - low) / 2;
    if (weight_ranges(middle, 1)[0].end <= begin)
      low = middle + 1;
    else
      high = middle;
  }
  constexpr std::int64_t at_once = 512;
  while (std::ssize(all) < n) {
    const auto some = std::min(at_once, header_.weight_ranges - low);
    require(some > 0,
            "{}: its weights do not cover all tokens: the file is damaged; tokenize again",
            path().string());
    for (const auto& r : weight_ranges(low, some))
      all.resize(static_cast<std::size_t>(std::clamp(r.end - begin, std::ssize(all), n)), r.weight);
    low += some;
  }
  return all;
}

void TokenFile::each_weight(const std::function<void(std::int64_t, float)>& f) const {
  constexpr std::int64_t at_once = 1 << 15;
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < header_.weight_ranges; i += at_once)
    for (const auto& r : weight_ranges(i, std::min(at_once, header_.weight_ranges - i))) {
      require(r.end > begin,
              "{}: its weights are not in order: the file is damaged; tokenize again",
              path().string());
      f(r.end - begin, r.weight);
      begin = r.end;
    }
}

TokenizerSpec TokenFile::tokenizer() const {
  std::string model(static_cast<std::size_t>(header_.tokenizer_bytes), '\0');
  read_bytes(header_.tokenizer_offset(), std::as_writable_bytes(std::span(model)));
  std::string chat(static_cast<std::size_t>(header_.chat_bytes), '\0');
  read_bytes(header_.chat_offset(), std::as_writable_bytes(std::span(chat)));
  return {header_.tokenizer, std::move(model), std::move(chat)};
}

static std::string hash_blocks(const TokenFile& file) {
  constexpr std::int64_t blocks = 64, block_bytes = std::int64_t{1} << 20;
  constexpr auto begin = static_cast<std::int64_t>(TokenFileHeader::bytes);
  const auto end = file.header().file_bytes(), n = end - begin;
  if (n <= blocks * block_bytes) return to_string(file.hash_of(begin, end));
  std::string all;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const auto at = begin + (n - block_bytes) * i / (blocks - 1);
    all += to_string(file.hash_of(at, at + block_bytes));
  }
  return to_string(hash128(all));
}

const std::string& TokenFile::hash_of_blocks() const {
  std::call_once(blocks_hash_->once, [&] { blocks_hash_->text = hash_blocks(*this); });
  return blocks_hash_->text;
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
  if (header_.weight_ranges > 0) {
    float smallest = most_weight, largest_weight = 0;
    each_weight([&](std::int64_t, float w) {
      smallest = std::min(smallest, w);
      largest_weight = std::max(largest_weight, w);
    });
    require(smallest == header_.smallest_weight && largest_weight == header_.largest_weight,
            "{} is damaged: its weights are {} to {}, but its header says {} to {}; tokenize again",
            path().string(), smallest, largest_weight, header_.smallest_weight,
            header_.largest_weight);
  }
  return hashed ? Verified::hash_and_ids : Verified::ids_only;
}

}  // namespace trireme
