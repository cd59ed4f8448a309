#pragma once
// master.h5: every whole parameter under its name, as virtual datasets over the shard files beside
// it. For users and other programs; loading does not read it.
#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "lib/base/view.hpp"
#include "lib/io/checkpoint.hpp"

namespace trireme {

struct Box {
  std::array<std::int64_t, max_dims> start{}, count{};
  bool operator==(const Box&) const = default;
};

// The flat row-major range [begin, begin + count) of a shape as boxes, in order: at most
// 2 * dims - 1 of them.
std::vector<Box> boxes_of(const Shape&, std::int64_t begin, std::int64_t count);

// Writes `directory`/master.h5 over the shards and syncs it. What a missing shard held reads as
// NaN.
FileRecord write_master(const std::filesystem::path& directory, std::int64_t step,
                        std::span<const FileRecord> shards);

}  // namespace trireme
