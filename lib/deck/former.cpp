#include "lib/deck/former.hpp"

#include <algorithm>
#include <array>

namespace trireme {

static constexpr std::array former_keys = {
    FormerKey{"checkpoint.ranks_per_file", std::int64_t{1},
              "is gone: each rank writes a file of its own; leave it out"},
    FormerKey{"run.cuda_graph", false,
              "is gone: a graph would be captured anew for each microbatch, which costs more than "
              "the launches that it saves; leave it out"},
};

const FormerKey* find_former(std::string_view path) {
  const auto* const found = std::ranges::find(former_keys, path, &FormerKey::path);
  return found == former_keys.end() ? nullptr : found;
}

}  // namespace trireme
