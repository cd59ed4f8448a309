#pragma once
// The files that a run writes beside its checkpoints: history.csv, evaluation.csv, digests.csv,
// routing.csv, outcome.json.
#include <cstdint>
#include <optional>
#include <string>

#include "lib/io/checkpoint.hpp"
#include "lib/io/config.hpp"
#include "lib/io/digests.hpp"
#include "lib/io/event_file.hpp"
#include "lib/io/routing_rows.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/io/run_tables.hpp"

namespace trireme {

enum class Origin : std::uint8_t {
  fresh,       // a new run
  this_run,    // restarted from a checkpoint of this directory, whose tables go on
  another_run  // restarted from another directory's checkpoint, with new tables
};

// Error when a table to be continued has other columns than this program writes.
void require_tables(const RunDirectory&);

// Tables have columns of their own for preferences, and keep them where they have them.
enum class Preferences : std::uint8_t { none, some };
enum class Evaluations : std::uint8_t { none, some };
enum class Digests : std::uint8_t { none, some };
enum class RoutingTable : std::uint8_t { none, some };

// Default-constructed, as on ranks other than 0, it does nothing.
class RunRecord {
 public:
  RunRecord() = default;
  // Opens the tables to continue after meta.step; damage is repaired and logged. `meta` is the
  // checkpoint's.
  RunRecord(const RunDirectory&, Origin, Preferences, Evaluations, Digests, RoutingTable,
            const CheckpointMeta& meta, JobStart = {});

  // Rows and texts go into an event file, too; one that cannot be written is left with a warning.
  void open_tensorboard(std::int64_t step);

  void add(const HistoryRow&);
  void add(const EvaluationRow&);
  void add(const DigestRow&);
  void add(const RoutingRow&);
  void add_sample(std::int64_t step, const std::string& text);
  // Before a checkpoint: syncs all rows to disk and copies the newest ones into `meta`.
  void put_into(CheckpointMeta&);
  void outcome(Outcome) const;  // of this machine and start
  // Error when another process trains in the directory now. For any thread.
  void require_lock() const;
  // After a checkpoint: writes the outcome and prunes old checkpoints. A failure is a warning.
  void saved(const Outcome&, const CheckpointConfig&) const;

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
    std::optional<Table> evaluation;
    std::optional<CsvFile> digests, routing;
    std::int64_t history_begins;  // the first step with a row
    std::string machine;
    JobStart start;
    std::optional<EventFile> events;
  };
  std::optional<Files> files_;
};

// Removes what put_into() added, on ranks that do not need it.
void drop_tables(CheckpointMeta&);

}  // namespace trireme
