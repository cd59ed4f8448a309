#pragma once
// One rank's HDF5 file: written as a stream, and verified.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/io/checkpoint.hpp"
#include "lib/io/posix_file.hpp"

namespace trireme {

// Elements [first, first + n) of a slice, counted from the slice's begin, as bytes that stay valid
// until the next call. At most max_chunk_bytes are asked for at a time, each element once.
using SliceSource = std::function<std::span<const std::byte>(const ParamSlice&, std::int64_t first,
                                                             std::int64_t n)>;

struct ShardLabel {
  int rank = 0;
  std::int64_t step = 0;
  std::string run;
};

// Writes `directory`/rank-<rank>.h5 and syncs it. Beyond the source's memory it needs one chunk.
// Throws Error (a full disk with its errno text) and leaves the unfinished file behind.
FileRecord write_shard(const std::filesystem::path& directory, const ShardLabel&,
                       std::span<const ParamSlice>, const SliceSource&);

// The hash that FileRecord describes, from a file whose chunk hashes are known.
Hash128 hash_around_chunks(const PosixFile&, std::span<const SliceRecord>);

// Reads the whole file of a record; what is wrong with it, one line each, none when it is intact.
std::vector<std::string> verify_file(const std::filesystem::path& directory, const FileRecord&);

// Bytes of chunk `i`'s elements.
std::int64_t chunk_bytes(const SliceRecord&, std::size_t i);

}  // namespace trireme
