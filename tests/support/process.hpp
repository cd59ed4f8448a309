#pragma once
// Runs the program under test as a user would, with a time limit, and captures its output.
#include <filesystem>
#include <string>

namespace trireme::test {

struct Finished {
  int code = 0;  // 128 + signal when a signal ended it; 124 when the limit passed
  std::string out, err;
};

// `command` as typed into a shell in `where`; $TRIREME is the program, $MPIEXEC -n N starts it on N
// ranks. It must not contain '.
Finished run(const std::filesystem::path& where, const std::string& command,
             int limit_seconds = 60);

}  // namespace trireme::test
