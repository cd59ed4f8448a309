#pragma once
// Writes the files of a run other than checkpoints: history.csv, the tables of evaluations,
// digests.csv, routing.csv, skipped.csv and outcome.json.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "lib/io/best_evaluations.hpp"
#include "lib/io/checkpoint.hpp"
#include "lib/io/config.hpp"
#include "lib/io/digests.hpp"
#include "lib/io/event_file.hpp"
#include "lib/io/routing_rows.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/io/run_tables.hpp"
#include "lib/io/skipped_rows.hpp"

namespace trireme {

// State from which a run starts.
enum class Origin : std::uint8_t {
  fresh,       // a new run
  this_run,    // restarted from a checkpoint in this directory, whose tables are continued
  another_run  // restarted from a checkpoint in another directory, with new tables
};

// Throws Error if an existing table has different columns than this program writes.
void require_tables(const RunDirectory&);

// Whether the run's tables have columns for preferences. If a continued table has these columns, it
// keeps them.
enum class Preferences : std::uint8_t { none, some };
// Whether the run writes digests.csv.
enum class Digests : std::uint8_t { none, some };
// Whether the run writes routing.csv.
enum class RoutingTable : std::uint8_t { none, some };

// Writes the tables and the outcome of a run. A default-constructed object does nothing. Ranks
// other than 0 use such objects.
class RunRecord {
 public:
  RunRecord() = default;
  // Opens the tables to continue them after meta.step. Repairs damaged tables and logs the repair.
  // `meta` belongs to the checkpoint from which the run starts. `evaluated` are the names of the
  // validation sets (ValidationData::name), each of which has a table.
  RunRecord(const RunDirectory&, Origin, Preferences, std::span<const std::string> evaluated,
            Digests, RoutingTable, const CheckpointMeta& meta, JobStart = {});

  // Opens an event file for TensorBoard, to which rows and texts are also written. If the event
  // file cannot be written, logs a warning and stops writing to it.
  void open_tensorboard(std::int64_t step);

  void add(const HistoryRow&);
  void add(const std::string& set, const EvaluationRow&);
  void add(const DigestRow&);
  void add(const RoutingRow&);
  void add(const SkippedRow&);
  void add_sample(std::int64_t step, const std::string& text);
  // Prepares for a checkpoint: syncs all rows to disk and copies the newest rows into `meta`.
  void put_into(CheckpointMeta&);
  // Copies the newest rows into `meta`, for a memory copy. Syncs nothing.
  void put_rows_into(CheckpointMeta&) const;
  void outcome(Outcome) const;  // Writes outcome.json, with this machine and job start.
  // Throws Error if another process now trains in the directory. Any thread may call the function.
  void require_lock() const;
  // Writes the outcome and removes old checkpoints. Call it after each checkpoint. A failure is
  // logged as a warning.
  void saved(const Outcome&, const CheckpointConfig&, const EvaluationRanking&);
  // Returns the evaluations of a set so far. The set must have a table.
  std::vector<EvaluationRow> evaluations(const std::string& set);

 private:
  template <class Write>
  void write_events(Write);
  CsvFile& restored(CsvFile&) const;

  struct Table {
    CsvFile file;
    const TableColumns* columns;
    Preferences preferences;
  };
  static Table open_with_preferences(const std::filesystem::path&, const TableColumns&, Preferences,
                                     std::optional<TableStart>);
  void append(Table&, const std::string& row) const;

  struct Files {
    RunDirectory directory;
    Table history;
    std::map<std::string, Table> evaluations;  // by validation set
    std::optional<CsvFile> digests, routing, skipped;
    std::int64_t history_begins;  // the first step with a row
    std::string machine;
    JobStart start;
    std::optional<EventFile> events;
  };
  std::optional<Files> files_;
};

// Removes the rows that put_into() added to `meta`. Ranks that do not need the rows call this
// function.
void drop_tables(CheckpointMeta&);

}  // namespace trireme
