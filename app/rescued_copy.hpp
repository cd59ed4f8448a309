#pragma once
// RescuedCopy: makes a checkpoint from one memory copy of a run, whose files are on several nodes.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lib/comm/communicator.hpp"
#include "lib/io/memory_copies.hpp"
#include "lib/io/node_copies.hpp"
#include "lib/io/run_directory.hpp"

namespace trireme {

// All public functions except the constructor and step() are collective.
class RescuedCopy {
 public:
  // `own` are the copies on this process's node. The manifest is that of the memory copy, equal on
  // all processes. Keeps references to `world` and `own`.
  RescuedCopy(const Communicator& world, const NodeCopies& own, Manifest);

  // Assigns each file that is not written yet to a process that has a copy of it. If no process has
  // a copy of a file, returns the name of the file. Otherwise returns an empty text.
  std::string find_lost();
  // Writes all files except the tokenizer to the directory `partial`. If a copy turns out to be
  // damaged, another process writes the file. Returns the result of the last find_lost().
  std::string write(const std::filesystem::path& partial);
  // Publishes the checkpoint after write(). `directory` is the run directory, on rank 0.
  void publish(const std::filesystem::path& partial, const RunDirectory* directory);

  std::int64_t step() const { return manifest_.meta.step; }

 private:
  bool is_tokenizer(std::size_t file) const;
  // Decides which process writes each file that is not written yet.
  void assign();
  // Returns an empty text, or why this process cannot write the file.
  std::string write_one(std::size_t file, const std::filesystem::path& partial);
  void write_assigned(const std::filesystem::path& partial);

  const Communicator& world_;
  const NodeCopies& own_;
  Manifest manifest_;
  std::string present_;        // '1' for each file of which this process has a copy
  std::string wrote_;          // '1' for each file that this process has written
  std::vector<int> writer_;    // of each file: the process that has written it, or -1
  std::vector<int> assigned_;  // of each file: the process that should write it, or -1
};

}  // namespace trireme
