#pragma once
// The table rollbacks.csv in a run directory: the rollbacks of a run to earlier checkpoints
// (train.rollback). A restart from such a checkpoint continues with the samples that the table
// names.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/checkpoint.hpp"

namespace trireme {

inline constexpr std::string_view rollbacks_name = "rollbacks.csv";
inline constexpr std::string_view rollback_columns =
    "step,last_skipped,first_sample,samples,phases";

// One row: the run rolled back to the checkpoint of `step`.
struct RollbackRow {
  std::int64_t step = 0;
  std::int64_t last_skipped = 0;  // step after which it rolled back
  // The samples [first_sample, first_sample + samples) are left out. The checkpoint was about to
  // read the first of them.
  std::int64_t first_sample = 0, samples = 0;
  // Files and shares of all samples so far (RunExtra::data_phases), as JSON text. The checkpoint
  // itself has only those up to its step.
  std::string phases{};
  std::int64_t next_sample() const { return first_sample + samples; }
  bool operator==(const RollbackRow&) const = default;
};

// Returns the directory two levels above a checkpoint. It is the run directory if the checkpoint is
// in a run. Follows symbolic links only if the given path is not in a run directory.
std::filesystem::path run_of_checkpoint(const std::filesystem::path& checkpoint);

// Returns the rows of the table in a run directory, in order. Returns an empty list if there is no
// table. Throws Error if the table is damaged.
std::vector<RollbackRow> read_rollbacks(const std::filesystem::path& run);
// Returns the rows of rollbacks to the checkpoint with this state, and of rollbacks before the run
// reached it. The step alone does not identify the checkpoint: after a rollback sets later
// checkpoints aside, the run may write checkpoints of the same steps again, with other samples.
std::vector<RollbackRow> rollbacks_until(const std::filesystem::path& run, const CheckpointMeta&);
// Replaces the table. Without rows, removes it.
void write_rollbacks(const std::filesystem::path& run, std::span<const RollbackRow>);

// Returns the last rollback to the checkpoint of `step`, after which the run continued. Returns
// nullopt if there is none.
std::optional<RollbackRow> last_rollback_to(std::span<const RollbackRow>, std::int64_t step);
// Sets the sample count and data phases in the state of a checkpoint to those with which the run
// continued after its last rollback to this checkpoint. Does nothing if the run has not rolled back
// to the checkpoint.
void continue_after_rollback(CheckpointMeta&, std::span<const RollbackRow>);

}  // namespace trireme
