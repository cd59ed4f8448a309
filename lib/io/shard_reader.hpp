#pragma once
// A shard as it describes itself, read through HDF5: what is left when the manifest is lost.
#include <filesystem>
#include <string>
#include <utility>

#include "lib/io/checkpoint.hpp"

namespace trireme {

// Reads the whole file. Error when it is no shard, or when anything in it contradicts its record.
std::pair<ShardRecord, FileRecord> read_shard(const std::filesystem::path&);

// What a shard, the file of one of the manifest's records, says of itself otherwise than the
// manifest; empty: nothing. It says so in its record.json and, compared with Check::hashes or where
// an older program wrote no record.json, in HDF5's names, shapes, dtypes and places. Elements are
// not read. Error when the file cannot be read.
std::string contradiction_in(const std::filesystem::path& shard, const Manifest&, const FileRecord&,
                             Check);

}  // namespace trireme
