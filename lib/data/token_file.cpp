#include "lib/data/token_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "lib/base/error.hpp"

namespace trireme {

namespace {

// A run may name thousands of files, more than the soft limit of descriptors allows.
bool more_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

// Does not wait, as opening a pipe would.
int open_to_read(const std::filesystem::path& path) {
  for (;;) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 || (errno != EINTR && (errno != EMFILE || !more_descriptors()))) return fd;
  }
}

// Widens n tokens and returns the largest, read as unsigned so that an id above 2^31 is found too.
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

struct TokenFile::Descriptor {
  int fd;
  explicit Descriptor(int opened) : fd(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

TokenFile::TokenFile(const std::filesystem::path& path)
    : path_(path), file_(std::make_shared<Descriptor>(open_to_read(path))) {
  const std::string name = path.string();
  require(file_->fd >= 0,
          "cannot open token file {}: {}; make it with `trireme tokenize` or correct "
          "the path",
          name, std::strerror(errno));
  struct stat status {};
  const bool examined = ::fstat(file_->fd, &status) == 0;
  require(examined, "cannot examine token file {}: {}", name, std::strerror(errno));
  require(S_ISREG(status.st_mode), "token file {} is not a regular file: name the file itself",
          name);

  std::array<std::byte, TokenFileHeader::bytes> first{};
  const auto have = std::min<std::int64_t>(status.st_size, first.size());
  const auto head = std::span(first).first(static_cast<std::size_t>(have));
  read_bytes(0, head);
  header_ = TokenFileHeader::decode(head, status.st_size, path);
}

void TokenFile::read_bytes(std::int64_t begin, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(file_->fd, out.data(), out.size(), static_cast<off_t>(begin));
    if (n < 0 && errno == EINTR) continue;
    require(n >= 0, "cannot read token file {}: {}", path_.string(), std::strerror(errno));
    require(n > 0,
            "token file {} ends before byte {}, which it held when it was opened: something writes "
            "to it; copy or tokenize it again",
            path_.string(), begin + static_cast<std::int64_t>(out.size()));
    out = out.subspan(static_cast<std::size_t>(n));
    begin += n;
  }
}

void TokenFile::read(std::int64_t begin, std::span<std::int32_t> ids) const {
  expect(begin >= 0 && begin + static_cast<std::int64_t>(ids.size()) <= header_.count,
         "tokens to read lie inside the file");
  std::vector<std::byte> raw(ids.size() * static_cast<std::size_t>(header_.token_bytes));
  read_bytes(static_cast<std::int64_t>(TokenFileHeader::bytes) + begin * header_.token_bytes, raw);
  const std::uint32_t largest = header_.token_bytes == 2 ? widen<std::uint16_t>(raw.data(), ids)
                                                         : widen<std::uint32_t>(raw.data(), ids);
  if (largest < static_cast<std::uint64_t>(header_.vocab)) return;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<std::uint32_t>(ids[i]);
    require(id < static_cast<std::uint64_t>(header_.vocab),
            "{}: token {} has id {}, but the vocabulary is {}: the file is damaged or its header "
            "wrong; tokenize again",
            path_.string(), begin + static_cast<std::int64_t>(i), id, header_.vocab);
  }
}

std::vector<bool> TokenFile::targets(std::int64_t begin, std::int64_t n) const {
  if (!header_.has_mask) return std::vector<bool>(static_cast<std::size_t>(n), true);
  std::vector<std::byte> raw(static_cast<std::size_t>((begin + n + 7) / 8 - begin / 8));
  read_bytes(header_.mask_offset() + begin / 8, raw);
  std::vector<bool> targets(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto bit = static_cast<std::size_t>(begin % 8) + i;
    targets[i] = (std::to_integer<unsigned>(raw[bit / 8]) >> (bit % 8) & 1U) != 0;
  }
  return targets;
}

TokenizerSpec TokenFile::tokenizer() const {
  std::string model(static_cast<std::size_t>(header_.tokenizer_bytes), '\0');
  read_bytes(header_.tokenizer_offset(), std::as_writable_bytes(std::span(model)));
  return {header_.tokenizer, std::move(model)};
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
            "{} is damaged: its contents hash to {}, its header says {}; copy or tokenize it again",
            path_.string(), to_string(found), to_string(header_.payload_hash));
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
          "{} is damaged: its largest id is {}, its header says {}; tokenize again", path_.string(),
          largest, header_.largest);
  return hashed ? Verified::hash_and_ids : Verified::ids_only;
}

}  // namespace trireme
