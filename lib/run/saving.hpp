#pragma once
// The checkpoints of a run: when one is due, how it is written, and what its failure means.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "lib/comm/agree.hpp"
#include "lib/io/checkpoint.hpp"
#include "lib/io/config.hpp"
#include "lib/run/record.hpp"
#include "lib/train/state_saver.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// What a checkpoint may take before one was measured.
inline constexpr double save_rate = 100e6;  // bytes a second and rank

// Collective, but for the questions.
class Saving {
 public:
  // `restored`: the checkpoint of `step` that the run starts from; empty: none. What is referred to
  // outlives this. Takes the memory of a copy where checkpoints are asynchronous.
  Saving(Trainer&, RunRecord&, CheckpointConfig, std::filesystem::path run, std::int64_t step,
         std::string restored);

  // Is one due after this step, by the deck?
  bool is_due(std::int64_t step) const;
  // Is one in progress, and does this rank still write its share?
  bool busy() const { return saver_.busy(); }
  bool writing() const { return saver_.working(); }
  // Seconds until all that the end of the run would wait for is written.
  double estimate() const;
  const std::string& last_checkpoint() const { return last_checkpoint_; }
  // Rank 0's warning when there is less space than the checkpoints will take.
  void warn_of_space() const;

  // `last`: the step that the run ends with, where that is known. A failure of its checkpoint
  // throws SharedError, that of an earlier one then does not keep it from being written; else
  // checkpoint.on_error says what it means.
  using Last = std::optional<std::int64_t>;
  // Nothing when the checkpoint of this step is there. StateFault, and no checkpoint, when the
  // state changed by itself or is not finite; so, too, from what follows.
  void save_at_once(CheckpointMeta&, Last);
  // By a thread behind training, where the deck lets it.
  void save_as_usual(CheckpointMeta&);
  // Goes on with one that is in progress; waits for what its next stage needs.
  void advance(Last);
  // On a run's end by an error, which is what it ends with.
  void finish();
  // Once, for all ranks.
  void log_no_checkpoint(const SharedError&, std::int64_t step) const;

 private:
  void complete(const std::filesystem::path&);
  void failed(const SharedError&, std::int64_t step, Last) const;
  void require_lock() const;
  void begin(CheckpointMeta&);

  Trainer& trainer_;
  const Communicator& world_;
  RunRecord& record_;
  CheckpointConfig config_;
  std::filesystem::path run_;
  StateSaver saver_;
  StateSaver::Size size_;
  std::string last_checkpoint_;
  std::int64_t saved_step_;  // of the newest checkpoint; -1: none
  struct {
    std::int64_t step = 0;
    std::chrono::steady_clock::time_point begin;
    double waited = 0;  // seconds that training stood still
  } now_;               // what the saver is busy with
  std::chrono::steady_clock::time_point tried_ = std::chrono::steady_clock::now();
  double seconds_ = 0;  // that the last one took on this rank
};

}  // namespace trireme
