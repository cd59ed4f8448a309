#pragma once
// Files with the tokens of one part of the inputs (lib/corpus/parts.hpp), which `trireme tokenize`
// joins to a token file. The files are temporary, and their format may change between versions.
//
// A file consists of blocks, a description, and an end. Each block contains tokens with their mask,
// labels and weights. The description contains the totals of the part. The end contains a hash of
// everything before it, so that an incomplete or damaged file is recognized.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/hash.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/corpus/text_totals.hpp"
#include "lib/corpus/token_writer.hpp"

namespace trireme {

// Writes the file of a part under a temporary name, in pieces of several MiB.
class PartWriter {
 public:
  // Throws Error if the file cannot be created.
  explicit PartWriter(const std::filesystem::path& file);
  // Removes the temporary file if it was not published.
  ~PartWriter();
  PartWriter(const PartWriter&) = delete;
  PartWriter& operator=(const PartWriter&) = delete;

  // Adds tokens, whose sizes in bytes are all the same. Throws Error if a write fails.
  void append(const PackedTokens&);
  // Syncs the file to the disk and renames it to its final name. Throws Error if a write fails.
  void finish(const TextTotals&);

 private:
  void put_block();
  void put(std::span<const std::byte>);
  void write();

  std::filesystem::path path_, temporary_;
  PosixFile file_;
  PackedTokens block_;             // not yet in buffer_
  std::vector<std::byte> buffer_;  // not yet in the file
  std::int64_t written_ = 0, largest_ = 0;
  Hasher hasher_;
  bool published_ = false;
};

// Returns true for the temporary name of a part's file.
bool is_unfinished_part(const std::filesystem::path&);

// Returns the totals of a part's file, or nullopt if there is no file or if its end is missing or
// damaged. Does not read the tokens.
std::optional<TextTotals> part_totals(const std::filesystem::path&);

// Passes the tokens of a part's file to `use`, block by block. Tokens have `token_bytes` bytes.
// Throws Error at the end if the hash of the file is wrong. The blocks must then not be used.
void read_part(const std::filesystem::path&, int token_bytes,
               const std::function<void(const PackedTokens&)>& use);

}  // namespace trireme
