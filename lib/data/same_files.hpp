#pragma once
// Each rank reads the token files at the deck's paths on its own node, where they may be copies on
// a local disk. With copies that differ, the ranks that share a sample would have unlike tokens of
// it.
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/comm/communicator.hpp"
#include "lib/data/token_file.hpp"

namespace trireme {

// What identifies a token file, by name: size, every field and hash of its header, and, if the
// header has no hash of the contents, a hash of 64 blocks of 1 MiB spread over them (of all of them
// if they are smaller).
using FileIdentity = std::vector<std::pair<std::string, std::string>>;
FileIdentity identity_of(const TokenFile&);

// Collective. SharedError unless all ranks have the same files: it names the first rank and file
// that differ from rank 0's, the hosts, and what differs.
void require_same_files(const Communicator& world, std::span<const TokenFile> mine);

}  // namespace trireme
