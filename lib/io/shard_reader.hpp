#pragma once
// A shard as it describes itself, read through HDF5: what is left when the manifest is lost.
#include <filesystem>
#include <utility>

#include "lib/io/checkpoint.hpp"

namespace trireme {

// Reads the whole file. Error when it is no shard, or when anything in it contradicts its record.
std::pair<ShardRecord, FileRecord> read_shard(const std::filesystem::path&);

}  // namespace trireme
