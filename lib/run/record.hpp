#pragma once
// What a run writes of itself beside its checkpoints: history.csv, evaluation.csv, outcome.json.
#include <cstdint>
#include <optional>
#include <string>

#include "lib/io/checkpoint.hpp"
#include "lib/io/config.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/io/run_tables.hpp"

namespace trireme {

enum class Origin : std::uint8_t {
  fresh,       // the run begins here
  this_run,    // it goes on from a checkpoint of this very directory
  another_run  // it goes on from a checkpoint of somewhere else, with tables of its own
};

// Error when a table that is to be continued has other columns than this program writes.
void require_tables(const RunDirectory&);

enum class Evaluations : std::uint8_t { none, some };

// A default-constructed one belongs to a rank other than 0 and does nothing.
class RunRecord {
 public:
  RunRecord() = default;
  // Opens the tables after meta.step; what was damaged in them is mended and logged. `meta` is what
  // the checkpoint said.
  RunRecord(const RunDirectory&, Origin, Evaluations, const CheckpointMeta& meta);

  void add(const HistoryRow&);
  void add(const EvaluationRow&);
  // Before a checkpoint that counts on them: all rows are on disk, the newest also in `meta`.
  void put_into(CheckpointMeta&);
  void outcome(const Outcome&) const;
  // After a checkpoint: says so and removes those that are too many. What fails is a warning.
  void saved(const Outcome&, const CheckpointConfig&) const;

 private:
  struct Files {
    RunDirectory directory;
    CsvFile history;
    std::optional<CsvFile> evaluation;
    std::int64_t history_begins;  // the first step that it has a row for
  };
  std::optional<Files> files_;
};

// Of a checkpoint's meta, what put_into() added, for ranks that do not need it.
void drop_tables(CheckpointMeta&);

}  // namespace trireme
