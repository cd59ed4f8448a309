#pragma once
// Conversion of exceptions to messages for users.
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>

#include "lib/base/error.hpp"

namespace trireme {

// Returns the exception's message for users. The text of an Error is returned unchanged. For
// exceptions of the standard library or other libraries, the message also says what the user can
// do.
inline std::string error_text(const std::exception& e) {
  if (dynamic_cast<const Error*>(&e)) return e.what();
  if (dynamic_cast<const std::bad_alloc*>(&e))
    return "out of memory: give the process more memory, or change the deck so that it needs less";
  const auto* refused = dynamic_cast<const std::system_error*>(&e);
  if (refused && refused->code() == std::errc::resource_unavailable_try_again)
    return "cannot start a thread: " + refused->code().message() +
           " -- raise `ulimit -u` or the job's limit on processes";
  // Error for a path that the user gave, such as a loop of links or a folder without read
  // permission.
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&e)) {
    const auto second = file->path2().empty() ? "" : " or " + file->path2().string();
    return "cannot access " + without_nul(file->path1().string() + second) + ": " +
           file->code().message();
  }
  if (refused) return refused->what();
  return std::string("unexpected error: ") + e.what() + " -- please report this";
}

}  // namespace trireme
