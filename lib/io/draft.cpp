#include "lib/io/draft.hpp"

#include <unistd.h>

#include <system_error>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/io/checkpoint_save.hpp"

namespace trireme {

namespace fs = std::filesystem;

static void require_free(const fs::path& target) {
  require(!is_there(target), "{} exists: remove it first, or give another name", target.string());
}

Draft::Draft(const fs::path& target) {
  std::error_code e;
  // Without "." and a final "/", which have no name to hide.
  target_ = fs::absolute(target, e).lexically_normal();
  if (!target_.has_filename()) target_ = target_.parent_path();
  require(!e && target_.has_filename(), "'{}' names no file or folder", target.string());
  require_free(target_);
  make_directory(target_.parent_path());
  // Of this process: another one may write to the same name, and nothing is removed unseen.
  path_ = target_.parent_path() /
          fmt::format(".{}{}.{}", target_.filename().string(), partial_suffix, ::getpid());
  require(!is_there(path_), "{} is in the way: remove it first", path_.string());
}

Draft::~Draft() {
  std::error_code ignored;
  if (!published_) fs::remove_all(path_, ignored);
}

void Draft::publish(const fs::path& part) {
  require_free(target_);
  rename_path(part.empty() ? path_ : part, target_);
  published_ = part.empty();
  sync_directory(target_.parent_path());
}

}  // namespace trireme
