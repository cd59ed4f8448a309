#pragma once
// The memory copies of one node, for the tests of lib/io.
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <vector>

#include "lib/io/memory_copies.hpp"
#include "tests/io/sample_checkpoint.hpp"

namespace trireme::test {

// A test outside of batch jobs, with an empty memory file system.
class CopiesOnANode : public testing::Test {
 protected:
  CopiesOnANode() {
    for (const char* name : {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "TRIREME_JOB"}) unsetenv(name);
    setenv("TRIREME_MEMORY_DIR", folder.path().c_str(), 1);
  }
  ~CopiesOnANode() override {
    unsetenv("TRIREME_MEMORY_DIR");
    unsetenv("SLURM_JOB_ID");
  }
  static std::filesystem::path root() { return memory_root(""); }
  // Makes a complete copy whose shards `write` puts into a directory, and returns its directory.
  static std::filesystem::path add(
      const std::filesystem::path& copies, std::int64_t step,
      const std::function<void(const std::filesystem::path&)>& write,
      const std::function<std::string()>& record = [] { return "{}"; },
      std::string_view tokenizer = "tokens") {
    begin_copy(copies, step);
    write(partial_copy(copies, step));
    add_copy_record(partial_copy(copies, step), record(), tokenizer);
    publish_copy(copies, step);
    return copies / checkpoint_name(step);
  }

  Folder folder;
  CopyOwner owner{"f00d", "0123"};
};

}  // namespace trireme::test
