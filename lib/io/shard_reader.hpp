#pragma once
// Reads a shard's own description through HDF5, in case the manifest is lost.
#include <filesystem>
#include <string>
#include <utility>

#include "lib/io/checkpoint.hpp"

namespace trireme {

// Reads the whole shard. Throws Error if the file is not a shard or contradicts its own record.
std::pair<ShardRecord, FileRecord> read_shard(const std::filesystem::path&);

// Returns the record of a shard whose bytes are known to be intact. Does not read its elements.
// Throws Error if the file is not a shard.
FileRecord record_of_shard(const std::filesystem::path&);

// Compares a shard with the manifest, which contains the FileRecord. Returns the first
// contradiction, or an empty string. The function compares the shard's record.json. With
// Check::hashes, or if the shard has no record.json because an older version wrote it, it also
// compares HDF5's names, shapes, data types and offsets. Elements are not read. Throws Error if the
// file cannot be read.
std::string contradiction_in(const std::filesystem::path& shard, const Manifest&, const FileRecord&,
                             Check);

}  // namespace trireme
