#pragma once
// Checks that all ranks read the same token files. Each rank reads the deck's paths on its own
// node, where the files may be local copies. If copies differed, ranks that share a sample would
// read different tokens.
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/comm/communicator.hpp"
#include "lib/data/token_file.hpp"

namespace trireme {

// Properties that identify a token file, as pairs of name and value: its size, the fields of its
// header, and a hash of its contents. If the header has no hash, TokenFile::hash_of_blocks()
// replaces it.
using FileIdentity = std::vector<std::pair<std::string, std::string>>;
FileIdentity identity_of(const TokenFile&);
// Returns the values of the properties, each in a line, from which hashes are computed.
std::string identity_lines(const TokenFile&);

// Throws SharedError unless all ranks have the same files. The error names the first rank and file
// that differ from those of rank 0, both hosts, and the difference. Collective.
void require_same_files(const Communicator& world, std::span<const TokenFile> mine);

}  // namespace trireme
