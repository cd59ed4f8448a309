#pragma once
// Ranks read the token files that lie under the deck's paths where they run: on local disks these
// may be copies. Training on copies that differ would pair the ids of one with the targets of
// another.
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/comm/communicator.hpp"
#include "lib/data/token_file.hpp"

namespace trireme {

// What tells a token file from another, by name: size, every field and hash of its header, and,
// where the header has no hash of what follows, a hash of 64 blocks of 1 MiB spread over that (of
// all of it when it is smaller).
using FileIdentity = std::vector<std::pair<std::string, std::string>>;
FileIdentity identity_of(const TokenFile&);

// Collective. SharedError unless all ranks hold the same files: it names the first rank and file
// that differ from rank 0's, the hosts, and what differs.
void require_same_files(const Communicator& world, std::span<const TokenFile> mine);

}  // namespace trireme
