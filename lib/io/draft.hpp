#pragma once
// What is written under a hidden name beside its own and appears by one rename: whole or not at
// all.
#include <filesystem>

namespace trireme {

class Draft {
 public:
  // Makes the folders that `target` is to lie in. Error where it exists already, and where
  // something has the hidden name, which has this process's id.
  explicit Draft(const std::filesystem::path& target);
  // Removes it unless it was published.
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  // To be created by the caller, as a file or a folder.
  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& target() const { return target_; }
  // After everything in it was synced. `part`, where given, is what of it is renamed; the rest
  // goes.
  void publish(const std::filesystem::path& part = {});

 private:
  std::filesystem::path target_, path_;
  bool published_ = false;
};

}  // namespace trireme
