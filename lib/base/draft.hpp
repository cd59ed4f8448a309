#pragma once
// What is written under a hidden name beside its own and appears by one rename: whole or not at
// all. The name is ".NAME.partial.SPACE.PROCESS", with a hash of the host and its process numbers,
// so that what a dead process left is known from what another host writes.
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace trireme {

// What becomes of a file that has the name already.
enum class ExistingFile : std::uint8_t { stays, replaced };

class Draft {
 public:
  // Makes the folders that `target` is to lie in, and removes what dead processes of this host left
  // of the same target; it warns of what those of other hosts may have left. Error where the target
  // exists and stays. `kind`: of several drafts for one target.
  explicit Draft(const std::filesystem::path& target, ExistingFile = ExistingFile::stays,
                 std::string_view kind = "");
  // Removes it unless it was published.
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  // To be created by the caller, as a file or a folder.
  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& target() const { return target_; }
  // After everything in it was synced. `part`, where given, is what of it is renamed; the rest is
  // removed. A file that got the name meanwhile stays, where the file system can promise it: Error.
  void publish(const std::filesystem::path& part = {});

 private:
  std::filesystem::path target_, path_;
  ExistingFile existing_;
  bool published_ = false;
};

// From now on SIGINT, SIGTERM and SIGHUP, where nobody handles or ignores them, remove all drafts
// of this process and then end it. Called before other threads start, which inherit that the
// signals are blocked: a thread of their own takes them.
void remove_drafts_on_signals();

}  // namespace trireme
