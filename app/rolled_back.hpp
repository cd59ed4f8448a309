#pragma once
// Rollbacks within one process of `train` (train.rollback).
#include <cstdint>
#include <optional>
#include <string>

#include "lib/comm/agree.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/run/loop.hpp"

namespace trireme {

// A run that rolls back to a checkpoint within this process. It keeps its deck, even if the file
// changes meanwhile, and its lock.
struct RolledBack {
  Rollback rollback;
  Deck deck;
  std::optional<RunDirectory> directory;  // on rank 0
  // The log already shows how the deck differs from the decks of checkpoints of this step or later.
  std::int64_t logged_step = 0;
};

// Records in rollbacks.csv that the run continues from the checkpoint `from` with later samples.
// Before that, sets later checkpoints aside. If the process ends in between, the next start reads
// the same samples again, and rolls back again. Throws Error if `from` is empty, or if the rollback
// would leave out no more samples than earlier rollbacks.
void record_rollback(const RunDirectory&, const std::string& from, const Rollback&);

// Records in outcome.json that a run failed during a rollback, before the training loop started.
// The loop records later failures. Logs an error if the file cannot be read or written.
void record_failed_rollback(const RunDirectory&, const SharedError&);

}  // namespace trireme
