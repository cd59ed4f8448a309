#pragma once
// What a hub of models and a clone of one have that is not what a path or a file seems to be.
#include <filesystem>
#include <string>
#include <string_view>

namespace trireme {

// Whether a file that begins like this is what Git LFS leaves in place of one that was not fetched.
bool is_lfs_pointer(std::string_view beginning);
// For such a file; to be put behind "FILE is ".
inline constexpr std::string_view lfs_pointer_advice =
    "a pointer of Git LFS and not the file itself: run git lfs pull where it was cloned, or "
    "download "
    "it";

// Of a path that is not there: what to do if it is meant as a hub's name, such as
// "Qwen/Qwen2-0.5B", to be put behind a message. Empty where it can be none.
std::string hub_advice(const std::filesystem::path&);

}  // namespace trireme
