#pragma once
// Memory limits that Linux control groups set for this process, for example from a batch job's
// --mem.
#include <cstddef>
#include <filesystem>
#include <string_view>

namespace trireme {

// Returns the smallest memory limit, in bytes, of this process's control groups and their
// ancestors. Other processes in these groups share the limit. Returns SIZE_MAX if there is no
// limit.
std::size_t cgroup_limit();
// Returns the smallest memory limit, in bytes, of the given control groups and their ancestors, or
// SIZE_MAX if there is none. `own` has the format of /proc/self/cgroup, and `mounted` is the
// directory where the cgroup file system is mounted.
std::size_t cgroup_limit(std::string_view own, const std::filesystem::path& mounted);

}  // namespace trireme
