#include "lib/corpus/token_writer.hpp"

#include <algorithm>
#include <system_error>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"

namespace trireme {

namespace {

constexpr std::size_t mask_buffer = std::size_t{1} << 20;

template <class T>
void narrow(std::span<const std::int32_t> ids, std::byte* out) {
  auto* to = reinterpret_cast<T*>(out);
  for (std::size_t i = 0; i < ids.size(); ++i) to[i] = static_cast<T>(ids[i]);
}

// Appends bits to `to`, which has `count` bits, the lowest bit of each byte first.
void append_bits(std::span<const std::uint8_t> bits, std::vector<std::byte>& to,
                 std::int64_t& count) {
  for (const std::uint8_t bit : bits) {
    if (count % 8 == 0) to.push_back(std::byte{0});
    to.back() |= std::byte{bit} << (count % 8);
    ++count;
  }
}

}  // namespace

void PackedTokens::append(std::span<const std::int32_t> ids, int token_bytes) {
  if (ids.empty()) return;
  std::int32_t most = 0, least = 0;
  for (auto id : ids) {
    most = std::max(most, id);
    least = std::min(least, id);
  }
  require(least >= 0, "a token id is negative: {}", least);
  require(token_bytes == 4 || most < 65536, "a token id is too large for 16 bits: {}", most);
  const std::size_t old = tokens.size();
  tokens.resize(old + ids.size() * static_cast<std::size_t>(token_bytes));
  if (token_bytes == 2) {
    narrow<std::uint16_t>(ids, tokens.data() + old);
  } else {
    narrow<std::uint32_t>(ids, tokens.data() + old);
  }
  count += static_cast<std::int64_t>(ids.size());
  largest = std::max(largest, std::int64_t{most});
}

void TokenWriter::Part::write(std::span<const std::byte> bytes) {
  file.write_at(bytes, size);
  size += static_cast<std::int64_t>(bytes.size());
}

static void require_replaceable(const std::filesystem::path& path, ExistingFile existing) {
  require_folder_of(path);
  std::error_code unknown;
  const auto status = std::filesystem::symlink_status(path, unknown);
  if (!std::filesystem::exists(status)) return;
  require(!std::filesystem::is_directory(path, unknown),
          "cannot write {}: it is a directory; give the name of a file", path.string());
  // The finished file is renamed to this path, which would replace a device or a link.
  require(std::filesystem::is_regular_file(status),
          "cannot write {}: it is not a regular file; give another name", path.string());
  PosixFile::open(path);
  require(is_token_file(path),
          "cannot write {}: it exists and is not a token file; give another name", path.string());
  require(existing == ExistingFile::replaced,
          "cannot write {}: it exists; give another name, or replace it with --overwrite",
          path.string());
}

TokenWriter::TokenWriter(const std::filesystem::path& path, ExistingFile existing, int token_bytes,
                         TargetMask mask)
    : path_(path), existing_(existing) {
  expect(token_bytes == 2 || token_bytes == 4, "a token has 2 or 4 bytes");
  require_replaceable(path, existing);
  header_.token_bytes = token_bytes;
  header_.has_mask = mask == TargetMask::present;
  part_ = std::make_unique<Part>(path, existing, "");
  if (header_.has_mask) mask_part_ = std::make_unique<Part>(path, existing, ".mask");
  part_->write(std::array<std::byte, TokenFileHeader::bytes>{});
}

void TokenWriter::write(std::span<const std::byte> bytes) {
  hasher_.update(bytes);
  part_->write(bytes);
}

void TokenWriter::append(const PackedTokens& packed) {
  expect(packed.tokens.size() ==
             static_cast<std::size_t>(packed.count) * static_cast<std::size_t>(token_bytes()),
         "packed tokens have the file's width");
  write(packed.tokens);
  header_.count += packed.count;
  header_.largest = std::max(header_.largest, packed.largest);
  append_bits(packed.labels, labels_, label_bits_);
  if (!header_.has_mask) return;
  expect(packed.targets.size() == static_cast<std::size_t>(packed.count),
         "there is a target bit for each token");
  append_bits(packed.targets, mask_, mask_bits_);
  if (mask_.size() < mask_buffer) return;
  const std::size_t begun = mask_bits_ % 8 != 0 ? 1 : 0;  // 1 if the last byte is not yet full
  const std::byte last = mask_.back();
  mask_part_->write(std::span(mask_).first(mask_.size() - begun));
  mask_.assign(begun, last);
  mask_bits_ %= 8;
}

void TokenWriter::write_mask() {
  std::vector<std::byte> buffer(mask_buffer);
  for (std::int64_t at = 0; at < mask_part_->size;) {
    const auto n = std::min<std::int64_t>(mask_part_->size - at, std::ssize(buffer));
    const auto piece = std::span(buffer).first(static_cast<std::size_t>(n));
    mask_part_->file.read_at(piece, at);
    write(piece);
    at += n;
  }
  write(mask_);
}

void TokenWriter::finish(std::int64_t vocab, std::optional<std::int32_t> separator,
                         std::int64_t documents, const TokenizerSpec& tokenizer, Documents kind) {
  expect(part_ != nullptr, "a token file is finished once");
  expect(header_.largest < vocab, "the vocabulary is above every id");
  if (header_.has_mask) write_mask();
  write(std::as_bytes(std::span(tokenizer.bytes)));
  write(std::as_bytes(std::span(tokenizer.chat)));
  expect(label_bits_ == (kind == Documents::labeled ? documents / 2 : 0),
         "each answer has a label");
  write(labels_);
  header_.vocab = vocab;
  header_.separator = separator;
  header_.documents = documents;
  header_.kind = kind;
  header_.tokenizer = tokenizer.kind;
  header_.tokenizer_bytes = static_cast<std::int64_t>(tokenizer.bytes.size());
  header_.chat_bytes = static_cast<std::int64_t>(tokenizer.chat.size());
  header_.payload_hash = hasher_.digest();

  part_->file.write_at(header_.encoded(), 0);
  part_->file.sync();  // all data is on disk before the rename publishes it
  require_replaceable(path_, existing_);
  part_->draft.publish();
  part_.reset();
  mask_part_.reset();
}

}  // namespace trireme
