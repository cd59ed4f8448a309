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
std::string read_checking(const fs::path& path, const FileRecord& record, const Take& take) {
  constexpr std::int64_t piece = 1 << 20;
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::clamp<std::int64_t>(record.size, 1, piece)));
  Hasher hasher;
  std::optional<PosixFile> file;
  for (std::int64_t at = 0; at < record.size; at += piece) {
    const auto part =
        std::span(buffer).first(static_cast<std::size_t>(std::min(piece, record.size - at)));
    try {
      if (!file) file.emplace(PosixFile::open(path));
      file->read_at(part, at);
    } catch (const Error& e) {
      return e.what();
    }
    hasher.update(part);
    take(part, at);
  }
  if (hasher.digest() == record.hash) return {};
  return fmt::format("{} does not match its hash", path.string());
}

}  // namespace

std::string NodeCopies::copy(const FileRecord& record, std::int64_t step,
                             const fs::path& to) const {
  std::string why = "this node has no copy of " + record.name;
  for (const auto& copy : held_) {
    if (copy.step != step) continue;
    auto target = PosixFile::create(to);
    why = read_checking(
        copy.directory / record.name, record,
        [&](std::span<const std::byte> part, std::int64_t at) { target.write_at(part, at); });
    if (why.empty()) {
      target.sync();
      return {};
    }
    remove_path(to);
  }
  return why;
}

std::optional<std::string> NodeCopies::bytes_of(const FileRecord& record, std::int64_t step) const {
  for (const auto& copy : held_) {
    if (copy.step != step) continue;
    std::string bytes;
    const auto why = read_checking(
        copy.directory / record.name, record, [&](std::span<const std::byte> part, std::int64_t) {
          bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
        });
    if (why.empty()) return bytes;
  }
  return {};
}

}  // namespace trireme
