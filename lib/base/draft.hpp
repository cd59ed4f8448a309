#pragma once
// Files and folders that are written under a hidden name next to their target and then renamed. The
// target therefore appears complete or not at all. The hidden name is
// ".NAME.partial.SPACE.PROCESS". SPACE is a hash of the host and its process id namespace. It
// distinguishes the remains of a dead process on this host from files that another host is writing.
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace trireme {

// Handling of an existing file with the same name: it stays, or it is replaced.
enum class ExistingFile : std::uint8_t { stays, replaced };

// A file or folder that is being written under a hidden name.
class Draft {
 public:
  // Creates the parent folders of `target`. Removes drafts of the same target that dead processes
  // of this host left, and logs a warning for drafts that may be from other hosts. Throws Error if
  // `target` exists and must stay. `kind` distinguishes several drafts of one target.
  explicit Draft(const std::filesystem::path& target, ExistingFile = ExistingFile::stays,
                 std::string_view kind = "");
  // Removes the draft unless it has been published.
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  // Returns the hidden path, where the caller creates a file or a folder.
  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& target() const { return target_; }
  // Renames the draft to its target. The caller must sync its contents before. If `part` is given,
  // only this path inside the draft is renamed, and the rest is removed. If an existing target must
  // stay and another process has created one in the meantime, throws Error. On file systems without
  // atomic exclusive renames, a target created at the last moment may be replaced.
  void publish(const std::filesystem::path& part = {});

 private:
  std::filesystem::path target_, path_;
  ExistingFile existing_;
  bool published_ = false;
};

// Makes SIGINT, SIGTERM and SIGHUP remove all drafts of this process and then end it. Ignored
// signals stay ignored. The function blocks the signals, which a separate thread then receives.
// Call it before other threads start, because they must inherit the blocked signals.
void remove_drafts_on_signals();

}  // namespace trireme
