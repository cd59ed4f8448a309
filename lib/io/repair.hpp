#pragma once
// Makes a checkpoint whole again when its shards are: manifest.json and master.h5 from them,
// tokenizer.bin from a checkpoint beside it.
#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

// Names of the files that were made; none when the checkpoint was intact. Error, and nothing is
// changed, when a shard is damaged or missing.
std::vector<std::string> repair_checkpoint(const std::filesystem::path&);

}  // namespace trireme
