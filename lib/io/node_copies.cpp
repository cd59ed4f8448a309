#include "lib/io/node_copies.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <system_error>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"

namespace trireme {

namespace fs = std::filesystem;

NodeCopies::NodeCopies(const fs::path& root, const CopyOwner& owner)
    : held_(held_copies(root, owner)) {
  for (const auto& copy : held_) {
    const auto path = copy.directory / copy_record_name;
    try {
      auto text = read_text(path);
      const auto manifest = parse_manifest(text, path.string());
      require(manifest.meta.run == owner.run && manifest.meta.step == copy.step,
              "{} is damaged: it belongs to another run or step", path.string());
      const CopyClaim claim{copy.step, hash128(text)};
      if (std::ranges::find(claims_, claim) != claims_.end()) continue;
      claims_.push_back(claim);
      records_.push_back(std::move(text));
    } catch (const Error& e) {  // another node may have an intact record
      problems_ += (problems_.empty() ? "" : "\n") + std::string(e.what());
    }
  }
}

std::string NodeCopies::record(const CopyClaim& claim) const {
  const auto found = std::ranges::find(claims_, claim);
  return found == claims_.end() ? "" : records_[static_cast<std::size_t>(found - claims_.begin())];
}

std::string NodeCopies::present(const Manifest& manifest) const {
  std::string text;
  for (const auto& file : manifest.files)
    text += std::ranges::any_of(held_,
                                [&](const HeldCopy& copy) {
                                  std::error_code e;
                                  const auto size = fs::file_size(copy.directory / file.name, e);
                                  return copy.step == manifest.meta.step && !e &&
                                         size == static_cast<std::uintmax_t>(file.size);
                                })
                ? '1'
                : '0';
  return text;
}

namespace {

// Reads the file in pieces and passes each piece to `take`. Returns an empty text if the file has
// the hash and size of the record, and otherwise what is wrong with it. Errors of `take` propagate.
template <class Take>
std::string read_checking(const PosixFile& file, const FileRecord& record, const Take& take) {
  constexpr std::int64_t piece = 1 << 20;
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::clamp<std::int64_t>(record.size, 1, piece)));
  Hasher hasher;
  for (std::int64_t at = 0; at < record.size; at += piece) {
    const auto part =
        std::span(buffer).first(static_cast<std::size_t>(std::min(piece, record.size - at)));
    try {
      file.read_at(part, at);
    } catch (const Error& e) {
      return e.what();
    }
    hasher.update(part);
    take(part, at);
  }
  if (hasher.digest() == record.hash) return {};
  return fmt::format("{} does not match its hash", file.path().string());
}

// Opens the file and returns the result of use(file). Returns the error if it cannot be opened.
template <class Use>
std::string if_opened(const fs::path& path, const Use& use) {
  std::optional<PosixFile> file;
  try {
    file.emplace(PosixFile::open(path));
  } catch (const Error& e) {
    return e.what();
  }
  return use(*file);
}

}  // namespace

std::string copy_if_intact(const PosixFile& from, const FileRecord& record, const fs::path& to) {
  constexpr std::int64_t writeback = std::int64_t{32} << 20;
  auto target = PosixFile::create(to);
  std::int64_t written_back = 0;
  const auto why =
      read_checking(from, record, [&](std::span<const std::byte> part, std::int64_t at) {
        target.write_at(part, at);
        const auto end = at + std::ssize(part);
        if (end - written_back < writeback) return;
        target.start_writeback(written_back, end - written_back);  // while the rest is copied
        written_back = end;
      });
  if (why.empty())
    target.sync();
  else
    remove_path(to);
  return why;
}

std::string NodeCopies::copy(const FileRecord& record, std::int64_t step,
                             const fs::path& to) const {
  std::string why = "this node has no copy of " + record.name;
  for (const auto& copy : held_) {
    if (copy.step != step) continue;
    why = if_opened(copy.directory / record.name,
                    [&](const PosixFile& from) { return copy_if_intact(from, record, to); });
    if (why.empty()) return {};
  }
  return why;
}

std::optional<std::string> NodeCopies::bytes_of(const FileRecord& record, std::int64_t step) const {
  for (const auto& copy : held_) {
    if (copy.step != step) continue;
    std::string bytes;
    const auto why = if_opened(copy.directory / record.name, [&](const PosixFile& from) {
      return read_checking(from, record, [&](std::span<const std::byte> part, std::int64_t) {
        bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
      });
    });
    if (why.empty()) return bytes;
  }
  return {};
}

}  // namespace trireme
