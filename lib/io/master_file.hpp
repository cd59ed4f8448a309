#pragma once
// Writes master.h5, which contains every parameter under its name as a virtual dataset over the
// shard files next to it. The file is for users and other programs. Loading a checkpoint does not
// read it.
#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "lib/base/view.hpp"
#include "lib/io/checkpoint.hpp"

namespace trireme {

// A rectangular block of an array.
struct Box {
  std::array<std::int64_t, max_dims> start{}, count{};
  bool operator==(const Box&) const = default;
};

// Returns the flat row-major range [begin, begin + count) of an array of this shape as boxes, in
// order. There are at most 2 * dims - 1 boxes.
std::vector<Box> boxes_of(const Shape&, std::int64_t begin, std::int64_t count);

// Writes `directory`/master.h5, whose datasets refer to the shards, and syncs it to disk. The
// elements of a missing shard read as NaN.
FileRecord write_master(const std::filesystem::path& directory, std::int64_t step,
                        std::span<const FileRecord> shards);

}  // namespace trireme
