#pragma once
// Detection of Git LFS pointer files. A clone contains pointer files if its large files were not
// downloaded.
#include <string_view>

namespace trireme {

// Returns true if a file with this beginning is a Git LFS pointer.
constexpr bool is_lfs_pointer(std::string_view beginning) {
  return beginning.starts_with("version https://git-lfs.github.com/spec/");
}

// Advice for a user whose file is a Git LFS pointer. The text completes a sentence that begins with
// "FILE is ".
inline constexpr std::string_view lfs_pointer_advice =
    "a Git LFS pointer and not the file itself: run git lfs pull in the clone, or download the "
    "file";

}  // namespace trireme
