#pragma once
// The memory copies that one process of `trireme rescue` finds on its node, and how a file of a
// memory copy becomes a file of a checkpoint.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/posix_file.hpp"
#include "lib/io/checkpoint.hpp"
#include "lib/io/memory_copies.hpp"
#include "lib/io/rescue_choice.hpp"

namespace trireme {

// Writes the bytes of `from` to the new file `to`, and syncs it to disk. The bytes are compared
// with the record's hash while they are written. Returns an empty text on success. If the bytes
// cannot be read or do not match, removes the new file and returns a description of the error.
// Throws Error if the new file cannot be written.
std::string copy_if_intact(const PosixFile& from, const FileRecord&,
                           const std::filesystem::path& to);

// The memory copies of a start of a run on this node. Different threads may copy different files.
class NodeCopies {
 public:
  NodeCopies() = default;
  // Looks for the copies of `owner` below `root` (memory_root).
  NodeCopies(const std::filesystem::path& root, const CopyOwner& owner);

  // Returns the copies whose copy.json is intact, each once.
  const std::vector<CopyClaim>& claims() const { return claims_; }
  // Returns the text of the copy.json of a claim, or an empty text if there is no such claim.
  std::string record(const CopyClaim&) const;
  // Returns descriptions of damaged files copy.json, one line each.
  const std::string& problems() const { return problems_; }

  // Returns a text for writers_of(): '1' for each file of the manifest of which this node has a
  // copy of the right size, and '0' for each other file. Does not compare hashes.
  std::string present(const Manifest&) const;
  // Writes an intact copy of the file to the new file `to`, like copy_if_intact(). If there is
  // none, returns a text that says why.
  std::string copy(const FileRecord&, std::int64_t step, const std::filesystem::path& to) const;
  // Returns the bytes of an intact copy of the file, or nullopt if there is none.
  std::optional<std::string> bytes_of(const FileRecord&, std::int64_t step) const;

 private:
  std::vector<HeldCopy> held_;
  std::vector<CopyClaim> claims_;
  std::vector<std::string> records_;  // by claim
  std::string problems_;
};

}  // namespace trireme
