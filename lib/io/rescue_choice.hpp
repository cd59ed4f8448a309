#pragma once
// Decides which memory copy `trireme rescue` uses, and which process writes each of its files. All
// processes decide from the same texts, so they decide the same.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/hash.hpp"

namespace trireme {

// A memory copy that a process holds: its step, and the hash of its copy.json. Nodes hold parts of
// the same copy only if these hashes are equal.
struct CopyClaim {
  std::int64_t step = 0;
  Hash128 record;
  bool operator==(const CopyClaim&) const = default;
};
// Convert the claims of a process to text and back. Throws Error if the text is invalid.
std::string claims_text(std::span<const CopyClaim>);
std::vector<CopyClaim> parse_claims(const std::string&);

// A memory copy that at least one process holds.
struct CopyCandidate {
  CopyClaim copy;
  int holder = 0;  // the first process that holds it
  bool operator==(const CopyCandidate&) const = default;
};
// Returns the copies that the processes claim, each once, newest first. `claims` has the claims of
// each process.
std::vector<CopyCandidate> candidates_of(std::span<const std::vector<CopyClaim>> claims);

// Returns, for each file, the process that writes it, or -1 if no process has it. `present` has a
// text for each process, with '1' for each file that the process has, and '0' for each other file.
// `bytes` has the size of each file. Divides the bytes about evenly: each file is written by the
// process with the fewest bytes so far among those that have it.
std::vector<int> writers_of(std::span<const std::string> present,
                            std::span<const std::int64_t> bytes);

}  // namespace trireme
