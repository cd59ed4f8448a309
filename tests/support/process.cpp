#include "tests/support/process.hpp"

#include <sys/wait.h>

#include <cstdlib>

#include "tests/support/scratch.hpp"

namespace trireme::test {

// As one word of a shell.
static std::string word_of(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

Finished run(const std::filesystem::path& where, const std::string& command, int limit_seconds) {
  const std::string line = "cd '" + where.string() +
                           "' && export TRIREME=\"${TRIREME_TESTED:-" TRIREME_PROGRAM
                           "}\" MPIEXEC='" TRIREME_MPIEXEC "' && timeout -k 5 " +
                           std::to_string(limit_seconds) + " bash -c " + word_of(command) +
                           " >.out 2>.err </dev/null";
  const int status = std::system(line.c_str());
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, contents_of(where / ".out"), contents_of(where / ".err")};
}

}  // namespace trireme::test
