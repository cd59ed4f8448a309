#pragma once
// One rank's HDF5 file: written as a stream, and verified.
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/posix_file.hpp"
#include "lib/io/checkpoint.hpp"

namespace trireme {

// Copies elements of a slice, from `first` on, counted from the slice's begin. At most
// max_chunk_bytes are asked for at a time, each element once.
using SliceSource =
    std::function<void(const ParamSlice&, std::int64_t first, std::span<std::byte> to)>;

std::string shard_name(int rank);  // "rank-00003.h5"

// An element of what is to be written is infinite or no number.
struct NotFinite : Error {
  using Error::Error;
};

// Writes the shard of `rank` and syncs it. Beyond the source's memory it needs two chunks.
// Throws NotFinite, or another Error (a full disk with its errno text), and leaves the unfinished
// file behind.
FileRecord write_shard(const std::filesystem::path& directory, int rank, const CheckpointMeta&,
                       std::span<const ParamSlice>, const SliceSource&);

// The hash that FileRecord describes, from a file whose chunk hashes are known.
Hash128 hash_around_chunks(const PosixFile&, std::span<const SliceRecord>);

// What is wrong with the file of a record, one line each, none when it is intact.
std::vector<std::string> verify_file(const std::filesystem::path& directory, const FileRecord&,
                                     Check);

// Bytes of chunk `i`'s elements.
std::int64_t chunk_bytes(const SliceRecord&, std::size_t i);

}  // namespace trireme
