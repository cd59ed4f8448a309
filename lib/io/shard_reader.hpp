#pragma once
// Reads a shard's own description through HDF5. It is needed if the manifest is lost.
#include <filesystem>
#include <string>
#include <utility>

#include "lib/io/checkpoint.hpp"

namespace trireme {

// Reads the whole file. Throws Error if it is not a shard or contradicts its own record.
std::pair<ShardRecord, FileRecord> read_shard(const std::filesystem::path&);

// Compares a shard with the manifest, one of whose records is the FileRecord. Returns the first
// contradiction, or an empty string. The shard's record.json is compared. HDF5's names, shapes,
// data types and offsets are compared too with Check::hashes, or if the shard has no record.json
// because an older program wrote it. Elements are not read. Throws Error if the file cannot be
// read.
std::string contradiction_in(const std::filesystem::path& shard, const Manifest&, const FileRecord&,
                             Check);

}  // namespace trireme
