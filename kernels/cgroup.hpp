#pragma once
// What control groups, such as those of a batch job's --mem, leave of a machine's memory.
#include <cstddef>
#include <filesystem>
#include <string_view>

namespace trireme {

// The least limit, in bytes, of this process' groups and of all above them, which it shares with
// what else runs in them; SIZE_MAX: none.
std::size_t cgroup_limit();
// The same of the groups that `own` names, as /proc/self/cgroup does, mounted at `mounted`.
std::size_t cgroup_limit(std::string_view own, const std::filesystem::path& mounted);

}  // namespace trireme
