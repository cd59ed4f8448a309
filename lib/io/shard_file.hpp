#pragma once
// Writes and verifies a shard: the HDF5 file of one rank.
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/byte_range.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/io/checkpoint.hpp"

namespace trireme {

// Function that copies elements of a slice to `to`. `first` is the index of the first element
// within the slice. A call requests at most max_chunk_bytes, and each element is requested once.
using SliceSource =
    std::function<void(const ParamSlice&, std::int64_t first, std::span<std::byte> to)>;

// Returns the file name of a rank's shard, for example "rank-00003.h5".
std::string shard_name(int rank);

// Thrown if an element to be written is infinite or NaN.
struct NotFinite : Error {
  using Error::Error;
};

// Writes the shard of `rank` into a new file and syncs it to disk. In addition to the source's
// memory, the function needs memory for two chunks. Throws NotFinite, or Error (with the errno text
// if a write fails), and leaves the incomplete file.
FileRecord write_shard(const std::filesystem::path& directory, int rank, const CheckpointMeta&,
                       std::span<const ParamSlice>, const SliceSource&);
// Like write_shard(), but replaces the content of `file`, which is open for reading and writing.
// The bytes are those of a new file, but the file system need not find space for them. `old` is the
// content of the file in memory (MappedFile), or empty. If it is given, chunks that the file
// contains already are not written, and their ranges are appended to `unchanged`.
FileRecord rewrite_shard(PosixFile& file, int rank, const CheckpointMeta&,
                         std::span<const ParamSlice>, const SliceSource&,
                         std::span<const std::byte> old, std::vector<ByteRange>& unchanged);

// Returns the hash of a shard file (see FileRecord). The function computes it from the hashes of
// the chunks in the slice records, without reading the chunks.
Hash128 hash_around_chunks(const PosixFile&, std::span<const SliceRecord>);

// Checks the record's file and returns one line for each problem. Returns an empty list if the file
// is intact.
std::vector<std::string> verify_file(const std::filesystem::path& directory, const FileRecord&,
                                     Check);

// Returns the size in bytes of the elements of chunk `i`.
std::int64_t chunk_bytes(const SliceRecord&, std::size_t i);

}  // namespace trireme
