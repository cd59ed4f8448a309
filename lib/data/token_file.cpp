#include "lib/data/token_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
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

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

std::shared_ptr<const std::byte> map(int fd, std::size_t size, const std::string& name) {
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  require(memory != MAP_FAILED, "cannot map token file {} ({} bytes) into memory: {}", name, size,
          std::strerror(errno));
  return {static_cast<const std::byte*>(memory),
          [memory, size](const std::byte*) { ::munmap(memory, size); }};
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

TokenFile::TokenFile(const std::filesystem::path& path) : path_(path) {
  const std::string name = path.string();
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  require(file.fd >= 0,
          "cannot open token file {}: {}; make it with `trireme tokenize` or correct "
          "the path",
          name, std::strerror(errno));
  struct stat status {};
  require(::fstat(file.fd, &status) == 0, "cannot examine token file {}: {}", name,
          std::strerror(errno));
  require(S_ISREG(status.st_mode), "token file {} is not a regular file: name the file itself",
          name);

  std::array<std::byte, TokenFileHeader::bytes> first{};
  std::size_t have = 0;
  while (have < first.size()) {
    const ssize_t n =
        ::pread(file.fd, first.data() + have, first.size() - have, static_cast<off_t>(have));
    if (n < 0 && errno == EINTR) continue;
    require(n >= 0, "cannot read token file {}: {}", name, std::strerror(errno));
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  header_ = TokenFileHeader::decode(std::span(first).first(have), status.st_size, path);
  bytes_ = map(file.fd, static_cast<std::size_t>(status.st_size), name);
}

void TokenFile::read(std::int64_t begin, std::span<std::int32_t> ids) const {
  expect(begin >= 0 && begin + static_cast<std::int64_t>(ids.size()) <= header_.count,
         "tokens to read lie inside the file");
  const std::byte* from = bytes_.get() + TokenFileHeader::bytes + begin * header_.token_bytes;
  const std::uint32_t largest =
      header_.token_bytes == 2 ? widen<std::uint16_t>(from, ids) : widen<std::uint32_t>(from, ids);
  if (largest < static_cast<std::uint64_t>(header_.vocab)) return;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<std::uint32_t>(ids[i]);
    require(id < static_cast<std::uint64_t>(header_.vocab),
            "{}: token {} has id {}, but the vocabulary is {}: the file is damaged or its header "
            "wrong; tokenize again",
            path_.string(), begin + static_cast<std::int64_t>(i), id, header_.vocab);
  }
}

TokenizerSpec TokenFile::tokenizer() const {
  const auto* model = reinterpret_cast<const char*>(bytes_.get() + header_.tokenizer_offset());
  return {header_.tokenizer, std::string(model, static_cast<std::size_t>(header_.tokenizer_bytes))};
}

Verified TokenFile::verify() const {
  const bool hashed = header_.payload_hash != Hash128{};
  const auto payload = std::span(bytes_.get(), static_cast<std::size_t>(header_.file_bytes()))
                           .subspan(TokenFileHeader::bytes);
  if (hashed) {
    const Hash128 found = hash128(payload);
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
