#pragma once
// Repairs a checkpoint whose shards are intact. manifest.json and master.h5 are restored from the
// shards, tokenizer.bin from a neighboring checkpoint.
#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

// Returns the names of the restored files. The list is empty if the checkpoint was intact. Throws
// Error, and changes nothing, if a shard is damaged or missing.
std::vector<std::string> repair_checkpoint(const std::filesystem::path&);

}  // namespace trireme
