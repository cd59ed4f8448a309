#include "lib/deck/removed_keys.hpp"

#include <algorithm>
#include <array>

namespace trireme {

static constexpr std::array removed_keys = {
    RemovedKey{"checkpoint.ranks_per_file", std::int64_t{1},
               "no longer exists, because each rank writes a file of its own: remove the key"},
    RemovedKey{"run.cuda_graph", false,
               "no longer exists, because capturing a CUDA graph for each micro-batch costs more "
               "than it saves: remove the key"},
};

const RemovedKey* find_removed(std::string_view path) {
  const auto* const found = std::ranges::find(removed_keys, path, &RemovedKey::path);
  return found == removed_keys.end() ? nullptr : found;
}

}  // namespace trireme
