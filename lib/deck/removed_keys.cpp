#include "lib/deck/removed_keys.hpp"

#include <algorithm>
#include <array>

namespace trireme {

static constexpr std::array removed_keys = {
    RemovedKey{"checkpoint.ranks_per_file", std::int64_t{1},
               "is gone: each rank writes a file of its own; leave it out"},
    RemovedKey{"run.cuda_graph", false,
               "is gone: a graph would be captured anew for each microbatch, which costs more than "
               "the launches that it saves; leave it out"},
};

const RemovedKey* find_removed(std::string_view path) {
  const auto* const found = std::ranges::find(removed_keys, path, &RemovedKey::path);
  return found == removed_keys.end() ? nullptr : found;
}

}  // namespace trireme
