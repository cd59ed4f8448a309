#pragma once
// Repairs a checkpoint whose shards are intact. manifest.json and master.h5 are restored from the
// shards. tokenizer.bin is restored from a neighboring checkpoint.
#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

// Repairs a checkpoint and returns the names of the restored files. The list is empty if the
// checkpoint was intact. If a shard is damaged or missing, throws Error and changes nothing.
std::vector<std::string> repair_checkpoint(const std::filesystem::path&);

}  // namespace trireme
