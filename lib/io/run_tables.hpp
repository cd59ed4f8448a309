#pragma once
// The tables history.csv and evaluation.csv, with one row per step. Rows are written as soon as
// they are known, and are synced to disk before a checkpoint. Numbers are written in the shortest
// form that reads back as the same double.
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/posix_file.hpp"
#include "lib/io/table_rows.hpp"

namespace trireme {

// A CSV file whose first column is the step, open for appending.
class CsvFile {
 public:
  // Continues the table, or begins a new table if there is no TableStart. A damaged table is
  // repaired. If the repair loses a line, the original is kept as NAME.damaged (or NAME.damaged-2
  // and so on). Throws Error if the file has another header.
  CsvFile(const std::filesystem::path&, std::string_view header, const std::optional<TableStart>&);
  // Appends one row. `row` has no newline. Throws Error if the disk is full. The file then still
  // contains only complete rows.
  void append(std::string_view row);
  void sync();
  const std::filesystem::path& path() const { return file_.path(); }
  // Returns false if the file was removed, was replaced or has lost rows, for example because a
  // user deleted it.
  bool in_place() const;
  // Writes all rows to a new file with the same name. Keeps an existing file with this name as
  // NAME.damaged. Throws Error if rows are lost.
  void put_back();
  // Returns the newest rows, at most 1000. A checkpoint stores these rows, so that a lost table can
  // be restored.
  std::string newest_rows() const;
  // Returns the step of the first row, or nullopt if there are no rows.
  std::optional<std::int64_t> first_step() const { return first_step_; }
  // Returns messages about the repair, one per line.
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  CsvFile(const std::filesystem::path&, OrderedTable);
  void remember(std::string_view row);

  PosixFile file_;
  std::uint64_t inode_;
  std::int64_t end_;
  std::deque<std::string> newest_;
  std::optional<std::int64_t> first_step_;
  std::vector<std::string> remarks_;
};

// The column names of a table with and without preferences. With an objective for pairs, a table
// has additional columns at the end. Tables of earlier versions may have the columns of `older`
// instead, which may be empty texts. All of these layouts have different numbers of columns.
struct TableColumns {
  std::string_view plain, preferences;
  struct {
    std::string_view plain, preferences;
  } older{};
};
inline constexpr TableColumns
    history_columns =
        {"step,tokens,loss,grad_norm,lr,seconds,tokens_per_second,mfu,bytes_sent,bytes_peak,"
         "trained_tokens",
         "step,tokens,loss,grad_norm,lr,seconds,tokens_per_second,mfu,bytes_sent,bytes_peak,"
         "trained_tokens,margin,accuracy,reward_chosen,reward_rejected",
         {"step,tokens,loss,grad_norm,lr,seconds,tokens_per_second,mfu,bytes_sent,bytes_peak",
          "step,tokens,loss,grad_norm,lr,seconds,tokens_per_second,mfu,bytes_sent,bytes_peak,"
          "margin,accuracy,reward_chosen,reward_rejected"}},
    evaluation_columns = {
        "step,tokens,loss,perplexity",
        "step,tokens,loss,perplexity,margin,accuracy,reward_chosen,reward_rejected"};

// Means over the preference pairs or labeled answers of a step or of the validation data. A mean is
// NaN if there is no such answer.
struct PreferenceColumns {
  double margin = 0, accuracy = 0, reward_chosen = 0, reward_rejected = 0;
  std::optional<double> z0{};  // of labeled answers; not in the tables
};

// One row of history.csv.
struct HistoryRow {
  std::int64_t step = 0, tokens = 0;
  double loss = 0, grad_norm = 0, lr = 0, seconds = 0, tokens_per_second = 0;
  std::int64_t bytes_sent = 0, bytes_peak = 0;
  // Model FLOPs utilization, from 0 to 1. 0 if unknown.
  double mfu = 0;
  // Targets that counted in the loss of all updates so far. Absent if unknown.
  std::optional<std::int64_t> trained_tokens{};
  // Present only for preference training.
  std::optional<PreferenceColumns> preference{};
};
// Returns the row as text. If `mfu` or `trained_tokens` is unknown, its field is empty.
std::string to_csv(const HistoryRow&);

// One row of evaluation.csv.
struct EvaluationRow {
  std::int64_t step = 0, tokens = 0;
  // Mean loss and perplexity. `perplexity` is 0 if it is undefined, as for losses of pairs.
  double loss = 0, perplexity = 0;
  std::optional<PreferenceColumns> preference{};
};
// Returns the row as text. If `perplexity` is undefined, its field is empty.
std::string to_csv(const EvaluationRow&);

// Returns true if a [[validation]] set may have this name, which is part of a file's name.
bool is_set_name(std::string_view);
// The folder of a run directory that contains the tables of [[validation]] sets.
inline constexpr std::string_view folder_of_sets = "evaluations";
// Returns the path of a run's evaluation table: evaluation.csv for the set without a name, which is
// data.validation, and evaluations/NAME.csv for a [[validation]] set.
std::filesystem::path evaluation_table(const std::filesystem::path& run, std::string_view set);
// Returns true if a file with this name in folder_of_sets is the table of a set.
bool is_table_of_set(std::string_view file_name);
// Returns the names of the sets whose tables are in the run directory, in order. The set without a
// name is first, if it has a table.
std::vector<std::string> evaluated_sets(const std::filesystem::path& run);

// Handle the columns that a table lacks if an earlier version wrote it, or if its run changes its
// objective at a restart. Once a table has preference columns, they remain, and are empty in rows
// of other objectives. has_preferences() returns true if the rows have these columns.
// with_columns() converts rows of any layout to `layout`, which must have all their columns. New
// fields are empty. with_preferences() converts them to TableColumns::preferences. The rows may
// include the header. Rows with another number of fields than the header do not change.
bool has_preferences(std::string_view rows, const TableColumns&);
std::string with_columns(const std::string& rows, const TableColumns&, std::string_view layout);
std::string with_preferences(const std::string& rows, const TableColumns&);
// Returns true if the text begins with the header of one of the layouts.
bool has_header(std::string_view text, const TableColumns&);

// Return the complete rows of a table, one per step, in the order of steps. The list is empty if
// the table does not exist. Throw Error if the table has other columns.
std::vector<HistoryRow> read_history(const std::filesystem::path&);
std::vector<EvaluationRow> read_evaluations(const std::filesystem::path&);

// Throws Error if the table exists and has other columns.
void require_columns(const std::filesystem::path&, std::string_view header);
void require_columns(const std::filesystem::path&, const TableColumns&);
// Returns true if the table has a complete row for this step.
bool has_row(const std::filesystem::path&, const TableColumns&, std::int64_t step);

}  // namespace trireme
