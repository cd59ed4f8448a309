#include "lib/corpus/part_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <system_error>

#include "lib/base/error.hpp"
#include "lib/base/packed_bits.hpp"
#include "lib/base/random_id.hpp"

namespace trireme {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t write_bytes = std::size_t{4} << 20;
constexpr std::string_view temporary_mark = ".writing.";

// Numbers before each block: tokens, bytes of a token, labels, ranges of weights, and 1 if there is
// a mask.
constexpr std::size_t head_words = 5;

struct End {
  std::array<char, 8> magic;
  std::int64_t blocks_end, largest;
  std::uint64_t hash_high, hash_low;  // of everything before the end, and of the two numbers
};
constexpr std::array<char, 8> magic{'T', 'R', 'I', 'P', 'A', 'R', 'T', '1'};

void hash_numbers(Hasher& hasher, std::int64_t blocks_end, std::int64_t largest) {
  const std::array numbers{blocks_end, largest};
  hasher.update(std::as_bytes(std::span(numbers)));
}

std::optional<End> end_of(const PosixFile& file) {
  End end{};
  const auto at = file.size() - std::int64_t{sizeof end};
  if (at < 0) return {};
  file.read_at(std::as_writable_bytes(std::span(&end, 1)), at);
  if (end.magic != magic || end.blocks_end < 0 || end.blocks_end > at || end.largest < 0) return {};
  return end;
}

[[noreturn]] void fail_damaged(const fs::path& path) {
  fail("{} is damaged: remove it, and run the same command again", path.string());
}

// Reads a file from its beginning through a buffer, and hashes what it reads.
class PartReader {
 public:
  explicit PartReader(const PosixFile& file) : file_(file), left_(file.size()) {}

  std::int64_t position() const { return at_ - std::ssize(buffer_) + std::int64_t(taken_); }
  void read(std::span<std::byte> out) {
    while (!out.empty()) {
      if (taken_ == buffer_.size()) fill();
      const auto n = std::min(out.size(), buffer_.size() - taken_);
      std::memcpy(out.data(), buffer_.data() + taken_, n);
      hasher.update(out.first(n));
      taken_ += n;
      out = out.subspan(n);
    }
  }

  Hasher hasher;

 private:
  void fill() {
    const auto n = std::min<std::int64_t>(left_ - at_, write_bytes);
    if (n <= 0) fail_damaged(file_.path());
    buffer_.resize(static_cast<std::size_t>(n));
    file_.read_at(buffer_, at_);
    at_ += n;
    taken_ = 0;
  }

  const PosixFile& file_;
  std::int64_t left_, at_ = 0;
  std::vector<std::byte> buffer_;
  std::size_t taken_ = 0;
};

}  // namespace

PartWriter::PartWriter(const fs::path& file)
    : path_(file),
      temporary_(fs::path(file) += fmt::format("{}{}", temporary_mark, random_id())),
      file_(PosixFile::create(temporary_)) {}

PartWriter::~PartWriter() {
  std::error_code ignored;
  if (!published_) fs::remove(temporary_, ignored);
}

bool is_unfinished_part(const fs::path& path) {
  return path.filename().string().find(temporary_mark) != std::string::npos;
}

void PartWriter::append(const PackedTokens& packed) {
  const auto add = [](auto& all, const auto& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  for (const auto& [end, weight] : packed.weights)
    block_.weights.push_back({block_.count + end, weight});
  add(block_.tokens, packed.tokens);
  add(block_.targets, packed.targets);
  add(block_.labels, packed.labels);
  block_.count += packed.count;
  block_.largest = std::max(block_.largest, packed.largest);
  if (block_.tokens.size() >= write_bytes) put_block();
}

void PartWriter::put_block() {
  const auto& b = block_;
  if (b.count == 0) return;
  const std::array<std::int64_t, head_words> head{b.count, std::ssize(b.tokens) / b.count,
                                                  std::ssize(b.labels), std::ssize(b.weights),
                                                  b.targets.empty() ? 0 : 1};
  put(std::as_bytes(std::span(head)));
  put(b.tokens);
  for (const auto* bits : {&b.targets, &b.labels}) {
    PackedBits packed;
    packed.append(*bits);
    put(packed.bytes);
  }
  for (const auto& [end, weight] : b.weights) {
    put(std::as_bytes(std::span(&end, 1)));
    put(std::as_bytes(std::span(&weight, 1)));
  }
  largest_ = std::max(largest_, b.largest);
  block_ = {};
}

void PartWriter::put(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() >= write_bytes) write();
}

void PartWriter::write() {
  hasher_.update(buffer_);
  file_.write_at(buffer_, written_);
  file_.start_writeback(written_, std::ssize(buffer_));
  written_ += std::ssize(buffer_);
  buffer_.clear();
}

void PartWriter::finish(const TextTotals& totals) {
  put_block();
  write();
  const auto blocks_end = written_;
  const auto description = Json::to_msgpack(to_json(totals));
  put(std::as_bytes(std::span(description)));
  write();
  hash_numbers(hasher_, blocks_end, largest_);
  const auto hash = hasher_.digest();
  const End end{magic, blocks_end, largest_, hash.high, hash.low};
  put(std::as_bytes(std::span(&end, 1)));
  file_.write_at(buffer_, written_);
  file_.sync();
  rename_path(temporary_, path_);
  published_ = true;
}

std::optional<TextTotals> part_totals(const fs::path& path) {
  if (!is_there(path)) return {};
  const auto file = PosixFile::open(path);
  const auto end = end_of(file);
  if (!end) return {};
  std::vector<std::uint8_t> description(
      static_cast<std::size_t>(file.size() - std::int64_t{sizeof *end} - end->blocks_end));
  file.read_at(std::as_writable_bytes(std::span(description)), end->blocks_end);
  try {
    return totals_of(Json::from_msgpack(description));
  } catch (const std::exception&) {
    return {};
  }
}

void read_part(const fs::path& path, int token_bytes,
               const std::function<void(const PackedTokens&)>& use) {
  const auto file = PosixFile::open(path);
  const auto end = end_of(file);
  if (!end) fail_damaged(path);
  PartReader in(file);
  while (in.position() < end->blocks_end) {
    std::array<std::int64_t, head_words> head{};
    in.read(std::as_writable_bytes(std::span(head)));
    const auto [count, each, labels, weights, masked] = head;
    const auto room = end->blocks_end - in.position();
    if (count < 0 || labels < 0 || count > room / token_bytes || labels / 8 > room || weights < 0 ||
        weights > room || (count > 0 && each != token_bytes))
      fail_damaged(path);
    PackedTokens packed;
    packed.count = count;
    packed.largest = end->largest;
    packed.tokens.resize(static_cast<std::size_t>(count * each));
    in.read(packed.tokens);
    const auto bits = [&](std::int64_t n) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(bytes_of_bits(n)));
      in.read(bytes);
      return unpacked_bits<std::uint8_t>(bytes, 0, n);
    };
    if (masked != 0) packed.targets = bits(count);
    packed.labels = bits(labels);
    for (std::int64_t i = 0; i < weights; ++i) {
      WeightRange range;
      in.read(std::as_writable_bytes(std::span(&range.end, 1)));
      in.read(std::as_writable_bytes(std::span(&range.weight, 1)));
      packed.weights.push_back(range);
    }
    use(packed);
  }
  std::vector<std::byte> description(
      static_cast<std::size_t>(file.size() - std::int64_t{sizeof *end} - end->blocks_end));
  in.read(description);
  hash_numbers(in.hasher, end->blocks_end, end->largest);
  if (in.position() != file.size() - std::int64_t{sizeof *end} ||
      in.hasher.digest() != Hash128{end->hash_high, end->hash_low})
    fail_damaged(path);
}

}  // namespace trireme
