#include "lib/corpus/token_writer.hpp"

#include <algorithm>
#include <system_error>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"

namespace trireme {

namespace {

constexpr std::size_t temporary_bytes = std::size_t{1} << 20;

template <class T>
void narrow(std::span<const std::int32_t> ids, std::byte* out) {
  auto* to = reinterpret_cast<T*>(out);
  for (std::size_t i = 0; i < ids.size(); ++i) to[i] = static_cast<T>(ids[i]);
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

void PackedTokens::set_weight(float weight) {
  const auto end = weights.empty() ? 0 : weights.back().end;
  if (count == end) return;
  if (!weights.empty() && weights.back().weight == weight)
    weights.back().end = count;
  else
    weights.push_back({count, weight});
}

void TokenWriter::TemporaryFile::write(std::span<const std::byte> bytes) {
  file.write_at(bytes, size);
  size += static_cast<std::int64_t>(bytes.size());
}

void require_replaceable(const std::filesystem::path& path, ExistingFile existing) {
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
  file_ = std::make_unique<TemporaryFile>(path, existing, "");
  if (header_.has_mask) mask_file_ = std::make_unique<TemporaryFile>(path, existing, ".mask");
  file_->write(std::array<std::byte, TokenFileHeader::bytes>{});
}

void TokenWriter::write(std::span<const std::byte> bytes) {
  hasher_.update(bytes);
  file_->write(bytes);
}

void TokenWriter::append(const PackedTokens& packed) {
  expect(packed.tokens.size() ==
             static_cast<std::size_t>(packed.count) * static_cast<std::size_t>(token_bytes()),
         "packed tokens have the file's width");
  write(packed.tokens);
  header_.count += packed.count;
  header_.largest = std::max(header_.largest, packed.largest);
  labels_.append(packed.labels);
  for (const auto& [end, weight] : packed.weights) {
    if (weight_.end > 0 && weight != weight_.weight) end_weight();
    weight_ = {header_.count - packed.count + end, weight};
  }
  if (!header_.has_mask) return;
  expect(packed.targets.size() == static_cast<std::size_t>(packed.count),
         "there is a target bit for each token");
  mask_.append(packed.targets);
  if (mask_.bytes.size() < temporary_bytes) return;
  const std::size_t begun = mask_.count % 8 != 0 ? 1 : 0;  // 1 if the last byte is not yet full
  const std::byte last = mask_.bytes.back();
  mask_file_->write(std::span(mask_.bytes).first(mask_.bytes.size() - begun));
  mask_.bytes.assign(begun, last);
  mask_.count %= 8;
}

void TokenWriter::end_weight() {
  const auto& [end, weight] = weight_;
  expect(least_weight <= weight && weight <= most_weight, "a weight is within its limits");
  header_.smallest_weight =
      header_.weight_ranges == 0 ? weight : std::min(header_.smallest_weight, weight);
  header_.largest_weight = std::max(header_.largest_weight, weight);
  ++header_.weight_ranges;
  const auto add = [&](const auto& field) {
    const auto bytes = std::as_bytes(std::span(&field, 1));
    weights_.insert(weights_.end(), bytes.begin(), bytes.end());
  };
  add(end);
  add(weight);
  if (weights_.size() < temporary_bytes) return;
  if (!weight_file_) weight_file_ = std::make_unique<TemporaryFile>(path_, existing_, ".weights");
  weight_file_->write(weights_);
  weights_.clear();
}

void TokenWriter::append_file(const TemporaryFile& from, std::span<const std::byte> rest) {
  std::vector<std::byte> buffer(temporary_bytes);
  for (std::int64_t at = 0; at < from.size;) {
    const auto n = std::min<std::int64_t>(from.size - at, std::ssize(buffer));
    const auto piece = std::span(buffer).first(static_cast<std::size_t>(n));
    from.file.read_at(piece, at);
    write(piece);
    at += n;
  }
  write(rest);
}

void TokenWriter::finish(std::int64_t vocab, std::optional<std::int32_t> separator,
                         std::int64_t documents, const TokenizerSpec& tokenizer, Documents kind) {
  expect(file_ != nullptr, "a token file is finished once");
  expect(header_.largest < vocab, "the vocabulary is above every id");
  if (header_.has_mask) append_file(*mask_file_, mask_.bytes);
  write(std::as_bytes(std::span(tokenizer.bytes)));
  write(std::as_bytes(std::span(tokenizer.chat)));
  expect(labels_.count == (kind == Documents::labeled ? documents / 2 : 0),
         "each answer has a label");
  write(labels_.bytes);
  if (weight_.end > 0) {
    expect(weight_.end == header_.count, "each token has a weight");
    end_weight();
    if (weight_file_)
      append_file(*weight_file_, weights_);
    else
      write(weights_);
  }
  header_.vocab = vocab;
  header_.separator = separator;
  header_.documents = documents;
  header_.kind = kind;
  header_.tokenizer = tokenizer.kind;
  header_.tokenizer_bytes = static_cast<std::int64_t>(tokenizer.bytes.size());
  header_.chat_bytes = static_cast<std::int64_t>(tokenizer.chat.size());
  header_.payload_hash = hasher_.digest();

  file_->file.write_at(header_.encoded(), 0);
  file_->file.sync();  // all data is on disk before the rename publishes it
  require_replaceable(path_, existing_);
  file_->draft.publish();
  file_.reset();
  mask_file_.reset();
  weight_file_.reset();
}

}  // namespace trireme
