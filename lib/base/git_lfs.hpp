#pragma once
// A clone without its large files.
#include <string_view>

namespace trireme {

// Whether a file that begins like this is what Git LFS leaves in place of one that was not fetched.
constexpr bool is_lfs_pointer(std::string_view beginning) {
  return beginning.starts_with("version https://git-lfs.github.com/spec/");
}

// For such a file; to be put behind "FILE is ".
inline constexpr std::string_view lfs_pointer_advice =
    "a pointer of Git LFS and not the file itself: run git lfs pull where it was cloned, or "
    "download it";

}  // namespace trireme
